# Starts PostgreSQL with memory as shares of what the machine has: bash postgres.sh -cNAME=VALUE ... (docker-compose.yml)
memory_mb=$(awk '/^MemTotal:/ {print int($2 / 1024)}' /proc/meminfo)
exec docker-entrypoint.sh postgres \
  -cshared_buffers=$((memory_mb / 8))MB \
  -ceffective_cache_size=$((memory_mb / 2))MB \
  -cmaintenance_work_mem=$((memory_mb / 32))MB \
  "$@"
