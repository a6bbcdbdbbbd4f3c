#!/bin/sh
# Write the manifests beside this file anew from the chart, for those who have no helm: make manifests.
set -eu

here="$(dirname "$0")"
out="${1:-$here}"

render() {
    file="$1"
    shift
    echo "# Made of the chart in deploy/helm/firn by 'make manifests': settings are in the config map." >"$out/$file"
    helm template firn "$here/../helm/firn" --namespace firn --kube-version 1.33.0 "$@" >>"$out/$file"
}

render firn.yaml
render monitoring.yaml \
    --set monitoring.serviceMonitor.enabled=true --show-only templates/service-monitor.yaml \
    --set monitoring.prometheusRule.enabled=true --show-only templates/prometheus-rule.yaml
