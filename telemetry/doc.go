// Package telemetry holds the chain's observers for metrics and traces.
package telemetry
