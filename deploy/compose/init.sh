#!/bin/sh
# Starts the cluster the first time, then makes the database, its regions, its roles and its settings. Run again it changes nothing.
set -eu
cockroach=/cockroach/cockroach
host=eu1.eu:26257

until said=$("$cockroach" init --certs-dir=/certs --host="$host" 2>&1); do
    case $said in
        *"already been initialized"*) break ;;
    esac
    echo "$said"
    sleep 1
done
# A region is known once a node of it has joined.
until [ "$("$cockroach" sql --certs-dir=/certs --host="$host" --format=csv \
    --execute="SELECT count(*) FROM [SHOW REGIONS FROM CLUSTER]" | tail -n 1)" = 3 ]; do
    sleep 1
done
"$cockroach" sql --certs-dir=/certs --host="$host" --file=/sql/cluster.sql
"$cockroach" sql --certs-dir=/certs --host="$host" --file=/sql/settings.sql
