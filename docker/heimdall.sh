#!/bin/sh
# Starts heimdall for Amoy. At its first start it makes its home, takes the network's own configuration (with the nodes
# to begin with) and genesis, which no image carries, and names its neighbours.
set -eu
version=v0.11.0
home=/var/lib/heimdall
source=https://raw.githubusercontent.com/0xPolygon/heimdall-v2/$version/packaging/templates/config/amoy
genesis=https://storage.googleapis.com/amoy-heimdallv2-genesis/migrated_dump-genesis.json

if [ ! -e "$home/complete" ]; then
  [ -e "$home/config/node_key.json" ] || heimdalld init sluice --chain-id=heimdallv2-80002 --home="$home"
  wget -O "$home/config/genesis.json" "$genesis"
  wget -O "$home/config/config.toml" "$source/config.toml"
  wget -O "$home/config/app.toml" "$source/app.toml"
  sed -i -e 's/^external_address = .*/external_address = ""/' -e 's/^moniker = .*/moniker = "sluice"/' "$home/config/config.toml"
  sed -i -e 's|^eth_rpc_url = .*|eth_rpc_url = "http://ethereum:8545"|' -e 's|^bor_rpc_url = .*|bor_rpc_url = "http://polygon:8545"|' \
    "$home/config/app.toml"
  touch "$home/complete"
fi
exec heimdalld start --home="$home" --rest-server
