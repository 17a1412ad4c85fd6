// One campaign: where it stands, what it does now, its rounds; one of its rounds; the raw samples of a round.
#pragma once

#include "http/message.h"
#include "journal/fold.h"
#include "record/listing.h"
#include "record/web.h"
#include "report/report.h"
#include "web/page.h"

namespace ridge::web {

inline constexpr std::int64_t kRoundsOfAPage = 100;

// `control`: with buttons that pause, stop, resume, extend and propose.
Page campaign_page(const record::CampaignCard& card, const report::Model& model, const http::Request& request,
                   bool control);
// Of a campaign that cannot be read.
Page broken_page(const record::CampaignCard& card);

Result<Page> round_page(const record::CampaignCard& card, const report::Model& model, const journal::State& state,
                        std::int64_t round);
// Why a round was accepted, or why not, in one sentence with its numbers.
std::string verdict_sentence(const record::ReportRound& round);

// Every written rule with its verdict and what it rests on; of a round, or without one of the last that is closed.
Page rules_page(const record::CampaignCard& card, const record::RuleTable& rules, std::optional<std::int64_t> round);

// One session of the last evaluation of a round, every launch; `page` of the request counts sessions.
Result<Page> samples_page(const record::CampaignCard& card, const journal::State& state, std::int64_t round,
                          const http::Request& request);
// The same session as JSON.
Result<std::string> samples_json(const journal::State& state, std::int64_t round, const http::Request& request);

}  // namespace ridge::web
