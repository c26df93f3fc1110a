# One image for every process of Sluice; docker-compose.yml says what each container runs. A second one, `local`, adds the local test chains.
#
#   docker build .                          # for production
#   docker build --target local .           # docker-compose.local.yml
FROM node:24.21.0-slim AS packages
WORKDIR /opt/sluice
COPY package.json package-lock.json ./
# Without what is for a machine that has no containers: a Postgres, local chains, another Node. Scripts of packages would fetch them. Node runs no
# TypeScript of packages, so their types and sources go, too.
RUN npm ci --omit=dev --omit=optional --ignore-scripts \
  && npm pkg delete devDependencies optionalDependencies && npm sbom --sbom-format=cyclonedx >sbom.json \
  && find node_modules -type f \( -name '*.ts' -o -name '*.cts' -o -name '*.mts' -o -name '*.map' -o -name '*.md' \) -delete

# Node and what it needs of Debian, without npm and other tools to install or build something.
FROM node:24.21.0-slim AS node
RUN rm -rf /opt/yarn* /usr/local/lib/node_modules /usr/local/include /usr/local/share /var/lib/apt/lists/* /var/cache/* \
  && find /usr/local/bin -mindepth 1 ! -name node ! -name docker-entrypoint.sh -delete

FROM scratch AS base
COPY --from=node / /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin NODE_ENV=production SLUICE_HOME=/var/lib/sluice
WORKDIR /opt/sluice
CMD ["sluice", "--help"]

# What .dockerignore lets through.
FROM base AS sources
COPY . .
RUN chmod +x cli/main.ts

# With what the local chains run on: one of the packages for development, and bcoin, which has a lockfile of its own.
FROM packages AS local-packages
COPY devnet/bitcoin/bcoin devnet/bitcoin/bcoin
COPY package.json /tmp/
RUN npm ci --prefix devnet/bitcoin/bcoin \
  && npm install --no-save litesvm@$(node -p "require('/tmp/package.json').devDependencies.litesvm")

FROM base AS local
COPY --from=local-packages /opt/sluice ./
COPY --from=sources /opt/sluice ./
RUN ln -s /opt/sluice/cli/main.ts /usr/local/bin/sluice && install -d -o node -g node -m 0700 /var/lib/sluice
USER node

FROM sources AS without-local-chains
RUN rm -r devnet docker/local-chains.ts

FROM base AS production
COPY --from=packages /opt/sluice ./
COPY --from=without-local-chains /opt/sluice ./
RUN ln -s /opt/sluice/cli/main.ts /usr/local/bin/sluice \
  && install -d -o node -g node -m 0700 /var/lib/sluice /var/lib/sluice/run /var/lib/sluice/dashboard
USER node
