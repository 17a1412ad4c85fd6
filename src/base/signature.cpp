#include "base/signature.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/error.h"
#include "base/files.h"

namespace ridge {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeyBytes = 32, kSignatureBytes = 64;
constexpr const char* kMakeOne = "make one with `ridge campaign key new FILE`";

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Context = std::unique_ptr<EVP_MD_CTX, Free>;
using Memory = std::unique_ptr<BIO, Free>;

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The bytes of exactly `size` pairs of lower-case digits; empty otherwise.
std::string from_hex(std::string_view hex, std::size_t size) {
  if (hex.size() != 2 * size) return {};
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    const int high = digit_of(hex[2 * i]), low = digit_of(hex[2 * i + 1]);
    if (high < 0 || low < 0) return {};
    bytes[i] = static_cast<char>(high * 16 + low);
  }
  return bytes;
}

Key private_key(std::string_view seed) {
  return Key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes_of(seed), seed.size()));
}

std::string raw_public(const EVP_PKEY* key) {
  std::string raw(kKeyBytes, '\0');
  std::size_t size = raw.size();
  check(EVP_PKEY_get_raw_public_key(key, bytes_of(raw), &size) == 1 && size == kKeyBytes, "no Ed25519 public key");
  return raw;
}

// Asked for a passphrase: there is none, and no terminal is bothered.
int no_passphrase(char*, int, int, void*) { return 0; }

Key parse_private(const std::string& pem) {
  const Memory memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Key(PEM_read_bio_PrivateKey(memory.get(), nullptr, no_passphrase, nullptr));
}

Key parse_public(const std::string& pem) {
  const Memory memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Key(PEM_read_bio_PUBKEY(memory.get(), nullptr, no_passphrase, nullptr));
}

bool is_ed25519(const Key& key) { return key && EVP_PKEY_get_id(key.get()) == EVP_PKEY_ED25519; }

std::string text_of(const Memory& memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string private_pem(const Key& key) {
  const Memory memory(BIO_new(BIO_s_mem()));
  check(PEM_write_bio_PrivateKey(memory.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1,
        "no PEM written");
  return text_of(memory);
}

std::string public_pem(const Key& key) {
  const Memory memory(BIO_new(BIO_s_mem()));
  check(PEM_write_bio_PUBKEY(memory.get(), key.get()) == 1, "no PEM written");
  return text_of(memory);
}

// Writes a file that was not there, with these permissions from the first byte on.
Status write_once(const fs::path& path, const std::string& text, mode_t mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd < 0 && errno == EEXIST) {
    return with_hint(make_error(ErrorCode::kConflict, "{} exists already", path.string()),
                     "a key is never overwritten: choose another name");
  }
  if (fd < 0) return make_error(ErrorCode::kIo, "cannot create {}: {}", path.string(), std::strerror(errno));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  const int failure = errno;
  ::close(fd);
  if (written) return ok_status();
  ::unlink(path.c_str());
  return make_error(ErrorCode::kIo, "cannot write {}: {}", path.string(), std::strerror(failure));
}

}  // namespace

std::string to_hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

SigningKey::SigningKey(std::string seed) : seed_(std::move(seed)) {
  const Key key = private_key(seed_);
  check(key != nullptr, "OpenSSL refused an Ed25519 seed");
  public_ = to_hex(raw_public(key.get()));
}

SigningKey SigningKey::generate() {
  std::string seed(kKeyBytes, '\0');
  check(::getrandom(seed.data(), seed.size(), 0) == static_cast<ssize_t>(seed.size()), "getrandom failed");
  return SigningKey(std::move(seed));
}

Result<SigningKey> SigningKey::read(const fs::path& path) {
  RIDGE_TRY(pem, read_file(path));
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0 || (facts.st_mode & 077) != 0) {
    return with_hint(invalid("other users may read the key {}", path.string()), "chmod 600 " + path.string());
  }
  const Key key = parse_private(pem);
  if (!is_ed25519(key)) {
    return with_hint(invalid("{} holds no Ed25519 private key without a passphrase (PEM)", path.string()), kMakeOne);
  }
  std::string seed(kKeyBytes, '\0');
  std::size_t size = seed.size();
  check(EVP_PKEY_get_raw_private_key(key.get(), bytes_of(seed), &size) == 1, "no Ed25519 private key");
  return SigningKey(std::move(seed));
}

Status SigningKey::write_new(const fs::path& path) const {
  const Key key = private_key(seed_);
  const fs::path shown = path.string() + ".pub";
  RIDGE_CHECK_OK(write_once(path, private_pem(key), 0600));
  const Status written = write_once(shown, public_pem(key), 0644);
  if (!written) ::unlink(path.c_str());
  return written;
}

std::string SigningKey::sign(std::string_view message) const {
  const Key key = private_key(seed_);
  const Context context(EVP_MD_CTX_new());
  std::string signature(kSignatureBytes, '\0');
  std::size_t size = signature.size();
  check(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
            EVP_DigestSign(context.get(), bytes_of(signature), &size, bytes_of(message), message.size()) == 1,
        "Ed25519 failed");
  return to_hex(signature);
}

Result<std::string> read_public_key(const fs::path& path) {
  RIDGE_TRY(pem, read_file(path));
  Key key = parse_public(pem);
  if (!key) key = parse_private(pem);
  if (is_ed25519(key)) return to_hex(raw_public(key.get()));
  return with_hint(invalid("{} holds no Ed25519 key (PEM)", path.string()),
                   "give the FILE.pub that `ridge campaign key new FILE` wrote");
}

bool is_signed(std::string_view message, std::string_view signature, std::string_view public_key) {
  const std::string raw = from_hex(public_key, kKeyBytes), given = from_hex(signature, kSignatureBytes);
  if (raw.empty() || given.empty()) return false;
  const Key key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(raw), raw.size()));
  const Context context(EVP_MD_CTX_new());
  return key && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), bytes_of(given), given.size(), bytes_of(message), message.size()) == 1;
}

}  // namespace ridge
