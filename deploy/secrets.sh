#!/bin/sh
# Make deploy/secrets: one random secret a file, readable by its owner. Files that exist are kept.
set -eu

folder="${1:-$(dirname "$0")/secrets}"
umask 077
mkdir -p "$folder"

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
keep() { [ -s "$folder/$1" ] || printf %s "$2" >"$folder/$1"; }

for name in redis-daemon-password redis-writer-password redis-reader-password http-token grafana-password; do
    keep "$name" "$(random)"
done
keep zookeeper-auth "firn:$(random)"
keep redis-url "redis://firn-daemon:$(cat "$folder/redis-daemon-password")@redis:6379/0"
# The daemon in its container is user 10001, Grafana 472, Prometheus nobody: mounted secrets keep their mode, so the
# folder is closed instead of the files.
chmod 0644 "$folder"/*
chmod 0700 "$folder"
echo "secrets are in $folder"
