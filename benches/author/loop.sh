#!/bin/bash
# An author's loop, from nothing to a router that decides by the policy: new, build, test, check, bench, serve against a mock
# engine, one request. Says how long each step took. benches/author/loop.sh [PROGRAM [STAGE [LANGUAGE]]]
set -euo pipefail

program=$(realpath "${1:-target/release/pointsman}")
stage=${2:-policy}
language=${3:-rust}
tree=$(realpath "$(dirname "$0")/../..")
folder=$(mktemp -d)
started=()
finish() {
    for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap finish EXIT

begun=$EPOCHREALTIME
since() { printf '%-8s %6.1f s\n' "$1" "$(bc <<<"$EPOCHREALTIME - $2")"; }
step() {
    local before=$EPOCHREALTIME
    "${@:2}" >"$folder/$1.txt" 2>&1 || { cat "$folder/$1.txt"; exit 1; }
    since "$1" "$before"
}
# The address behind a word that a process says when it listens.
address() {
    for _ in $(seq 600); do
        if grep -oE "$2[\"=: ]*(http://)?127\.0\.0\.1:[0-9]+" "$1" | grep -oE '127.*' | head -1 | grep .; then return; fi
        sleep 0.05
    done
    cat "$1" >&2
    return 1
}
serve() {
    "$program" mock-engine --addr 127.0.0.1:0 --name loop --model my-model >"$folder/engine.log" 2>&1 &
    started+=($!)
    local engine
    engine=$(address "$folder/engine.log" "at")
    cat >"$folder/pointsman.yaml" <<YAML
listen: 127.0.0.1:0
admin: 127.0.0.1:0
policies_dir: policies
workers: [{ worker_id: 1, endpoint: "http://$engine", model: my-model }]
YAML
    if [ "$stage" = classifier ]; then
        echo 'request_classifier: { type: my-first }' >>"$folder/pointsman.yaml"
    else
        echo 'worker_selection: { aggregated: mine, instances: [{ name: mine, type: my-first }] }' >>"$folder/pointsman.yaml"
    fi
    "$program" --log-format json serve --config "$folder/pointsman.yaml" >"$folder/serve.log" 2>&1 &
    started+=($!)
    local public
    public=$(address "$folder/serve.log" '"public')
    for _ in $(seq 200); do
        if curl -sfo "$folder/answer" -D "$folder/headers" "http://$public/v1/chat/completions" -H 'content-type: application/json' \
            -d '{"model":"my-model","messages":[{"role":"user","content":"hello"}]}'; then break; fi
        sleep 0.05
    done
    if [ "$stage" = classifier ]; then
        curl -sf "http://$(address "$folder/serve.log" '"admin')/metrics" | grep '^pointsman_classifier_requests_total.*fate="admitted".* 1$'
    else
        grep -i '^x-pointsman-policy: mine@' "$folder/headers"
    fi
}

cd "$folder"
step new "$program" policy new my-first --stage "$stage" --lang "$language" --sdk "$tree"
step build "$program" policy build my-first --out policies
step test "$program" policy test my-first
step check "$program" policy check my-first
step bench "$program" policy bench my-first
step serve serve
cat check.txt bench.txt serve.txt
since all "$begun"
