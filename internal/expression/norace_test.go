//go:build !race

package expression

const raceEnabled = false
