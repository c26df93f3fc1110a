#!/bin/sh
# Starts java-tron for Nile. At its first start it takes the network's own configuration (with its first block and the
# nodes to begin with), which the image does not carry, and adds what Sluice needs: what is set last counts.
set -eu
config=/java-tron/output-directory/nile.conf
source=https://raw.githubusercontent.com/tron-nile-testnet/nile-testnet/master/framework/src/main/resources/config-nile.conf

if [ ! -e "$config" ]; then
  curl -fsSL -o "$config.part" "$source" || wget -O "$config.part" "$source"
  cat >> "$config.part" <<'END'

vm.saveInternalTx = true                  # value that contracts move
storage.transHistory.switch = "on"        # what came of transactions
node.http.fullNodeEnable = true
node.http.fullNodePort = 8090
node.http.solidityEnable = true
node.http.solidityPort = 8091
END
  mv "$config.part" "$config"
fi
cd /java-tron
exec ./bin/FullNode -c "$config" -d /java-tron/output-directory
