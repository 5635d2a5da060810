package collect

import (
	"fmt"
	"slices"
	"testing"
)

func TestPace(t *testing.T) {
	const mb = 1 << 20
	type tick struct {
		live, allocated uint64 // MB
		want            string // percent, and ! where memory is given back
	}
	for name, ticks := range map[string][]tick{
		"nothing to do": slices.Repeat([]tick{{100, 15, "100"}}, calmTicks+2),
		"little to do":  {{100, 20, "100"}, {100, 24, "100"}},
		"much to do":    {{100, 200, "800"}},
		"about as much": {{100, 200, "800"}, {100, 220, "800"}, {110, 180, "800"}, {100, 400, "1600"}},
		"less": slices.Concat([]tick{{100, 200, "800"}}, slices.Repeat([]tick{{100, 100, "800"}}, calmTicks-1),
			[]tick{{100, 100, "400"}}, slices.Repeat([]tick{{100, 20, "400"}}, calmTicks-1), []tick{{100, 20, "100"}}),
		"more live":     {{100, 200, "800"}, {800, 200, "100"}},
		"a full budget": {{500, 900, "300"}, {1500, 900, "100"}, {5000, 900, "100"}},
		"calm after work": slices.Concat([]tick{{100, 200, "800"}, {100, 200, "800"}},
			slices.Repeat([]tick{{100, 1, "800"}}, calmTicks-1), []tick{{100, 1, "100!"}, {100, 1, "100"}}),
		"calm after little work": slices.Concat(slices.Repeat([]tick{{100, 20, "100"}}, 13),
			slices.Repeat([]tick{{100, 1, "100"}}, calmTicks-1), []tick{{100, 1, "100!"}, {100, 1, "100"}}),
		"a pause in work":       slices.Repeat([]tick{{100, 200, "800"}, {100, 1, "800"}, {100, 1, "800"}}, calmTicks),
		"before any collection": {{0, 160, "2000"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := pace{budget: 2000 * mb, percent: usualPercent}
			for i, tick := range ticks {
				percent, release := p.next(tick.live*mb, tick.allocated*mb)
				p.percent = percent
				got := fmt.Sprint(percent) + map[bool]string{true: "!"}[release]
				if got != tick.want {
					t.Errorf("tick %d: %s, want %s", i, got, tick.want)
				}
			}
		})
	}
}
