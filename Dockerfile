# One image for every process of Sluice; docker-compose.yml says what each container runs.
FROM node:24.21.0-slim

ENV NODE_ENV=production SLUICE_HOME=/var/lib/sluice
WORKDIR /opt/sluice

# Without what is for a machine that has no containers: a Postgres, local chains, another Node. Scripts of packages would fetch them.
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --omit=optional --ignore-scripts && npm cache clean --force

# What .dockerignore lets through.
COPY . .
RUN ln -s /opt/sluice/cli/main.ts /usr/local/bin/sluice \
  && chmod +x cli/main.ts \
  && install -d -o node -g node -m 0700 /var/lib/sluice /var/lib/sluice/run /var/lib/sluice/dashboard

USER node
CMD ["sluice", "--help"]
