#!/bin/sh
# Start Redis with firn's users. Each password is a mounted file; the ACL file that is made of them holds hashes only.
set -eu

: "${FIRN_SECRETS:=/run/secrets}"
: "${FIRN_REDIS_ETC:=/usr/local/etc/redis}"
: "${FIRN_ACL:=/tmp/users.acl}"

hash_of() {
    secret="$FIRN_SECRETS/redis-$1-password"
    [ -s "$secret" ] || { echo "start.sh: $secret is missing or empty" >&2; exit 1; }
    # A line end at the end of the file is not part of the password.
    printf %s "$(cat "$secret")" | sha256sum | cut -d ' ' -f 1
}

daemon=$(hash_of daemon)
writer=$(hash_of writer)
reader=$(hash_of reader)
umask 077
sed -e "s/@DAEMON@/$daemon/" -e "s/@WRITER@/$writer/" -e "s/@READER@/$reader/" \
    "$FIRN_REDIS_ETC/users.acl.in" >"$FIRN_ACL"

exec redis-server "$FIRN_REDIS_ETC/redis.conf" --aclfile "$FIRN_ACL" "$@"
