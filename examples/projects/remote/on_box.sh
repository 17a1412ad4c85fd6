#!/bin/sh
# Runs one command of the project on another machine: on_box.sh COMMAND WORDS...
#
# BOX names it, as ssh does. The copy of the project in which this runs goes there first, and what the command made comes
# back; a word that names a file of the caller's (the table) gets one of the box's. Without BOX a folder of this machine
# stands in for the box, and everything else is the same.
set -eu
here=$PWD
on_box() { if [ -n "${BOX:-}" ]; then ssh -- "$BOX" "$1"; else sh -c "$1"; fi; }
# One word in quotes, for the shell of the box.
word() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }

there=$(on_box 'mktemp -d')
trap 'on_box "rm -rf $(word "$there")"' EXIT
tar -C "$here" -cf - . | on_box "tar -C $(word "$there") -xf - && touch $(word "$there")/.arrived"
table= line=
for one in "$@"; do
  case $one in
    /*/benchmark.csv) table=$one; one=$there/.table ;;
  esac
  line="$line $(word "$one")"
done
status=0
on_box "cd $(word "$there") && $line" || status=$?
if [ -n "$table" ]; then
  on_box "cat $(word "$there")/.table" > "$table" || rm -f "$table"
else
  on_box "cd $(word "$there") && find . -type f -newer .arrived ! -name .arrived -print0 | tar --null -T - -cf -" | tar -C "$here" -xf -
fi
exit $status
