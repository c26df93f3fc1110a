#!/usr/bin/env bash
# A shop for the command line, of curl, jq and openssl: an address for each customer, deposits that a webhook credits,
# and payouts.
#   export SLUICE_URL=… SLUICE_API_KEY=… SLUICE_WEBHOOK_SECRET=…
#   shop.sh user REFERENCE        the deposit addresses: {"ETH": "0x…"}
#   shop.sh webhook <BODY         for your web server: the body as it came, and WEBHOOK_ID, WEBHOOK_TIMESTAMP and
#                                 WEBHOOK_SIGNATURE from its headers. Ends with 0: answer 204; with 1: answer 400
#   shop.sh payout CHAIN TOKEN    the payout; or what Sluice refuses it with, and exit code 22
#   shop.sh balance REFERENCE     what was credited: {"ETH USDC": ["250", "1.5"]}; the shell cannot add decimals
set -euo pipefail
: "${SLUICE_URL:?}" "${SLUICE_API_KEY:?}" "${SLUICE_WEBHOOK_SECRET:?}"
mkdir -p credits

refuse() {
  echo "$*" >&2
  exit 1
}

ask() { # PATH JSON [MORE FOR CURL]
  # The key by a file: everybody on this machine can read the arguments of its programs.
  curl -sS --fail-with-body --max-time 30 --json "$2" "${@:3}" "$SLUICE_URL$1" \
    -H @<(echo "Authorization: Bearer $SLUICE_API_KEY")
}

digest() { openssl dgst -sha256 -binary "$@" | openssl base64 -A; }

webhook() {
  body=$(mktemp) new=$(mktemp credits/.XXXXXX)
  trap 'rm "$body" "$new"' EXIT
  cat >"$body" # a variable would lose its last line break, and the signature is over every byte

  # A pattern first: arithmetic of the shell can run commands.
  [[ ${WEBHOOK_TIMESTAMP:-} =~ ^[1-9][0-9]{0,11}$ ]] || refuse 'it has no timestamp'
  age=$(($(date +%s) - WEBHOOK_TIMESTAMP))
  ((age >= -300 && age <= 300)) || refuse 'it is old, sent again by a stranger, or a clock is wrong'

  # openssl takes the key as an argument only. Where others share the machine, use another language.
  key=$(openssl base64 -d -A <<<"${SLUICE_WEBHOOK_SECRET#whsec_}" | od -An -v -tx1 | tr -d ' \n')
  expected=v1,$({ printf '%s.%s.' "${WEBHOOK_ID:-}" "$WEBHOOK_TIMESTAMP" && cat "$body"; } |
    digest -mac HMAC -macopt "hexkey:$key")
  ((${#key} >= 48)) || refuse 'SLUICE_WEBHOOK_SECRET is not that of an endpoint'
  # Digests are compared, so that the time it takes tells nothing of the signature that it should be.
  wanted=$(digest <<<"$expected")
  is_genuine=
  read -ra given <<<"${WEBHOOK_SIGNATURE:-}" # two, for a day after the secret was rotated
  for one in "${given[@]}"; do
    if [[ $(digest <<<"$one") == "$wanted" ]]; then is_genuine=1; fi
  done
  [[ $is_genuine ]] || refuse 'the signature is not that of this body and secret'

  # A file is both the credit and the id by which it happens once, so they are saved in one transaction: it is written
  # whole, and then gets its name, which it can get once. The id is the deposit's: an event comes again under its own
  # id, or, after Sluice was restored from a backup, under a new one.
  id=$(jq -r 'select(.type == "deposit.confirmed" and (.test | not)).deposit_id' "$body")
  [[ $id ]] || return 0
  [[ $id =~ ^dep_[0-9a-f]{32}$ ]] || refuse 'that is no deposit' # it becomes the name of a file
  jq '{reference: .user.external_ref, asset: "\(.chain) \(.token)", amount}' "$body" >"$new"
  sync "$new"
  ln "$new" "credits/$id" 2>/dev/null || [[ -e credits/$id ]]
  sync credits # only now that it is saved this ends with 0: otherwise Sluice sends the event again
}

case ${1:-} in
user)
  ask /v1/users "$(jq -n --arg reference "$2" '{external_ref: $reference}')" |
    jq 'if .addresses then .addresses | map({(.chain): .address}) | add else . end'
  ;;
webhook) webhook ;;
payout)
  # The whole balance, once a day: by its key, a second request is the same payout.
  ask /v1/payouts "$(jq -n --arg chain "$2" --arg token "$3" '{$chain, $token}')" \
    -H "Idempotency-Key: $(date -u +%F)-$2-$3"
  ;;
balance)
  find credits -name 'dep_*' -exec cat {} + | jq -s --arg reference "$2" 'map(select(.reference == $reference))
    | group_by(.asset) | map({key: .[0].asset, value: map(.amount)}) | from_entries'
  ;;
*) refuse 'shop.sh user|webhook|payout|balance: its first lines say how' ;;
esac
