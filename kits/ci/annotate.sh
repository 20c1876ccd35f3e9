#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Says in a CI job why programs and tests failed, from the folders that `verbena run --artifacts` and the pytest plugin
# leave.
#
#   annotate.sh FOLDER...
#
# On GitHub (GITHUB_ACTIONS=true) it prints annotations, elsewhere lines FILE:LINE: TEXT. It skips a folder that does
# not exist.
set -euo pipefail

most_lines=5  # how many explanations of one failure are shown: the last ones

# Prints the value of a member of run.json (of `verbena run`) or test.json (of the plugin), a string or a number; the
# file has one member on each line. If several
# members have the name, the first one counts.
member() {
  sed -n 's/^[{ ]*"'"$2"'": *\("\(\([^"\\]\|\\.\)*\)"\|\(-\{0,1\}[0-9]\{1,\}\)\),\{0,1\}.*$/\2\4/p' "$1" | head -1 | unescaped
}
unescaped() { sed 's/\\\(["\\/]\)/\1/g'; }

# Prints what a file has of completions with an error, as explain.log would have it: a program's error output may have
# gone elsewhere, or --quiet have kept the explanations back.
explained_events() {
  local word='"\(\([^"\\]\|\\.\)*\)"'
  sed -n '/"kind":"completion_error"/s/^.*"program":'"$word"',"pid":\([0-9]*\),"qpn":'"$word"',"type":'"$word"',.*"explanation":'"$word"',.*$/verbena: \1[\3]: \6 queue pair \4: \8/p' "$1"
}

# Prints the rules that never fired, one on a line.
rules_that_never_fired() {
  sed -n '/^ *"never_fired": *\[$/,/^ *\]/s/^ *"\(.*\)",\{0,1\}$/\1/p' "$1"
}

# Prints what is known of a failure: completions with an error that explain.log does not have, then explain.log, then the
# rules of which it says nothing.
explained() {
  local folder=$1 json=$2 log="" line rule
  [ ! -f "$folder/explain.log" ] || log=$(cat "$folder/explain.log")
  if [ -f "$folder/events.jsonl" ]; then
    while IFS= read -r line; do
      [[ $log == *"$line"* ]] || printf '%s\n' "$line"
    done < <(explained_events "$folder/events.jsonl" | tail -n "$most_lines" | unescaped)
  fi
  [ -z "$log" ] || printf '%s\n' "$log"
  while IFS= read -r rule; do
    [[ $log == *"the rule '$rule' never fired"* ]] || printf "verbena: the rule '%s' never fired\n" "$rule"
  done < <(rules_that_never_fired "$json" | unescaped)
}

# Prints text as GitHub's commands want it.
escaped() {
  local text=${1//%/%25}
  text=${text//$'\r'/%0D}
  printf '%s' "${text//$'\n'/%0A}"
}
escaped_property() {
  local text
  text=$(escaped "$1")
  text=${text//:/%3A}
  printf '%s' "${text//,/%2C}"
}

annotate() {
  local json=$1 folder file line title text code place
  folder=$(dirname "$json")
  code=$(member "$json" exit_code)
  [ "$code" != 0 ] || return 0
  file=$(member "$json" file)
  line=$(member "$json" line)
  title=$(member "$json" test)
  [ -n "$title" ] || title=$(member "$json" repeat)
  text=$(explained "$folder" "$json" | tail -n "$most_lines")
  [ -n "$text" ] || text="it failed, and nothing that was kept says why; see $folder"
  if [ "${GITHUB_ACTIONS:-}" = true ]; then
    place=${file:+file=$(escaped_property "$file"),}${line:+line=$line,}
    echo "::error ${place}title=$(escaped_property "$title")::$(escaped "$text")"
  else
    while IFS= read -r text; do printf '%s: %s\n' "${file:-$folder}${line:+:$line}" "$text"; done <<<"$text"
  fi
}

[ $# -gt 0 ] || { echo "annotate.sh: name the folders" >&2; exit 2; }
for top in "$@"; do
  [ -d "$top" ] || continue
  while IFS= read -r -d '' json; do annotate "$json"; done < <(
    find "$top" \( -name run.json -o -name test.json \) -print0 | sort -z)
done
