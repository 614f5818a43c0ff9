#!/bin/sh
# Makes what is missing of the cluster's certificates and hands them, and the data folders, to the users that run. Run again it changes nothing.
#   /ca       the key of the authority: stays here
#   /nodes    one folder a node             /clients   isoline_server, isoline_owner
#   /admin    root, for init and grants     /data      one folder a node
set -eu
umask 077
cockroach=/cockroach/cockroach
database_uid=1000
isoline_uid=10001

make() { # folder, file that shows that it is done, what to make
    folder=$1 done_file=$2
    shift 2
    if [ ! -f "$folder/$done_file" ]; then
        "$cockroach" cert "$@" --certs-dir="$folder" --ca-key=/ca/ca.key
    fi
}

make /ca ca.crt create-ca
for node in eu1 eu2 us1 us2 ap1 ap2; do
    region=${node%?}
    mkdir -p "/nodes/$node" "/data/$node"
    cp /ca/ca.crt "/nodes/$node/ca.crt"
    make "/nodes/$node" node.crt create-node \
        "$node.$region" "$node.wan" "lb-$region.$region" "lb-$region.wan" db localhost 127.0.0.1
done
cp /ca/ca.crt /clients/ca.crt
cp /ca/ca.crt /admin/ca.crt
for user in isoline_server isoline_owner; do
    make /clients "client.$user.crt" create-client "$user"
done
make /admin client.root.crt create-client root
chown -R "$database_uid:$database_uid" /nodes /admin /data
chown -R "$isoline_uid:$isoline_uid" /clients
# The load balancers read the authority's certificate, which is no secret.
chmod 755 /clients
chmod 644 /clients/ca.crt
