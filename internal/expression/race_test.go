//go:build race

package expression

const raceEnabled = true
