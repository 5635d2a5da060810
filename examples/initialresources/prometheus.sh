#!/usr/bin/env bash
# Copyright The Gatehouse Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs a Prometheus on 127.0.0.1:9099 that has seen a container for the last eight hours: it used a quarter of a CPU and 100Mi, scraped every
# minute. It keeps what it has in the directory prometheus, and runs on when this script has ended.
set -euo pipefail
address=http://127.0.0.1:9099
now=$(date +%s)
began=$((now - 8 * 3600))
labels='namespace="default",pod="web-0",container="web",image="registry.example/web:1"'

mkdir prometheus
cd prometheus
{
  echo '# TYPE container_cpu_usage_seconds counter'
  for ((at = began; at <= now; at += 60)); do
    echo "container_cpu_usage_seconds_total{$labels} $(((at - began) / 4)) $at"
  done
  echo '# TYPE container_memory_working_set_bytes gauge'
  for ((at = began; at <= now; at += 60)); do
    echo "container_memory_working_set_bytes{$labels} 104857600 $at"
  done
  echo '# EOF'
} > samples
promtool tsdb create-blocks-from openmetrics samples data > /dev/null
echo '{}' > config.yaml
prometheus --config.file=config.yaml --storage.tsdb.path=data --web.listen-address="${address#http://}" > log 2>&1 &
echo $! > pid
until promtool query instant "$address" 1 > /dev/null 2>&1; do
  kill -0 "$(cat pid)" || { cat log >&2; exit 1; }
  sleep 0.1
done
