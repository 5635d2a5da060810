// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// zones returns the zones of a topology, or the error's text.
func zones(t topology, err error) string {
	if err != nil {
		return err.Error()
	}
	return t.zones()
}

// counting is a cloud that knows volumes of a zone, and how often it was asked.
type counting struct {
	zone  string
	asked int
}

func (c *counting) locate(_ context.Context, volume, zoneLabel string) (topology, error) {
	c.asked++
	if volume == "gone" {
		return nil, errors.New("gone")
	}
	return topologyOf("r", c.zone), nil
}

func TestRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &counting{zone: "a"}
		p := asking(cloud, nil, time.Minute)
		p.ttl = time.Minute
		want := func(volume, zoneLabel, zone string, asked int) {
			t.Helper()
			got, err := p.ask(t.Context(), cloud, "AWS", volume, zoneLabel)
			if in := zones(got, err); in != zone || cloud.asked != asked {
				t.Errorf("%s with %q is in %q, asked %d times; want %q, %d", volume, zoneLabel, in, cloud.asked, zone,
					asked)
			}
		}
		want("v", "", "a", 1)
		want("v", "", "a", 1)
		want("v", "a", "a", 1) // which the plugin itself has set
		want("v", "b", "a", 2) // with which a disk of the same name may be meant
		want("w", "", "a", 3)
		want("gone", "", "gone", 4)
		want("gone", "", "gone", 5)
		time.Sleep(59 * time.Second)
		cloud.zone = "b"
		want("v", "", "a", 5)
		time.Sleep(2 * time.Second)
		want("v", "", "b", 6)
	})
}

func TestNothingIsRemembered(t *testing.T) {
	cloud := &counting{zone: "a"}
	p := asking(cloud, nil, time.Minute)
	for range 2 {
		if _, err := p.ask(t.Context(), cloud, "AWS", "v", ""); err != nil {
			t.Error(err)
		}
	}
	if cloud.asked != 2 {
		t.Errorf("asked %d times", cloud.asked)
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	cloud := &counting{zone: "a"}
	p := asking(cloud, nil, time.Minute)
	p.ttl = time.Hour
	for i := range 3 * remembered {
		if _, err := p.ask(t.Context(), cloud, "AWS", fmt.Sprint(i), "z"); err != nil {
			t.Fatal(err)
		}
	}
	if kept := len(p.answers.Keys()); kept != remembered {
		t.Errorf("%d are remembered", kept)
	}
}
