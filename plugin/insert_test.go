// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"strings"
	"testing"
)

func TestInsert(t *testing.T) {
	added := []Descriptor{Descriptor{Name: "X"}, Descriptor{Name: "Y"}}
	for name, test := range map[string]struct {
		insert func([]Descriptor, string, ...Descriptor) []Descriptor
		beside string
		want   string
	}{
		"before":           {InsertBefore, "C", "A B X Y C D"},
		"before the first": {InsertBefore, "A", "X Y A B C D"},
		"after":            {InsertAfter, "C", "A B C X Y D"},
		"after the last":   {InsertAfter, "D", "A B C D X Y"},
	} {
		t.Run(name, func(t *testing.T) {
			list := insertable()
			if got := strings.Join(Names(test.insert(list, test.beside, added...)), " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got := strings.Join(Names(list), " "); got != "A B C D" {
				t.Errorf("the list has become %s", got)
			}
		})
	}
}

func TestInsertBesideNothing(t *testing.T) {
	defer func() {
		const want = `admission plugin list: there is no "a" to insert plugins beside, did you mean "A"?`
		if got := recover(); got != want {
			t.Errorf("got  %v\nwant %s", got, want)
		}
	}()
	InsertBefore(insertable(), "a", Descriptor{Name: "X"})
}

func insertable() []Descriptor {
	return []Descriptor{{Name: "A"}, {Name: "B"}, {Name: "C"}, {Name: "D"}}
}
