// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"gatehouse.dev/internal/commandline"
)

// completeObject makes the shell complete objects about which there are decisions: first their types, and after
// "TYPE/" or "TYPE " their names.
func (w *whyCommand) completeObject(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	word, _, named := strings.Cut(begun, "/")
	switch {
	case w.lastRefused || len(args) > 1 || len(args) == 1 && (named || strings.Contains(args[0], "/")):
		return nil, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1:
		return w.complete(begun, func(objects recordedObjects) []string { return w.namesOf(objects, args[0]) }),
			cobra.ShellCompDirectiveNoFileComp
	case named:
		return w.complete(begun, func(objects recordedObjects) (words []string) {
			for _, name := range w.namesOf(objects, word) {
				words = append(words, word+"/"+name)
			}
			return words
		}), cobra.ShellCompDirectiveNoFileComp
	}
	return w.complete(begun, func(objects recordedObjects) (words []string) {
		for resource := range objects {
			words = append(words, resource.String()+"/")
		}
		return words
	}), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// recordedObjects holds the names of objects about which there are decisions.
type recordedObjects map[schema.GroupResource]sets.Set[string]

// complete returns the words that begin as the user's does. There are none if the server can't be asked.
func (w *whyCommand) complete(begun string, words func(recordedObjects) []string) []string {
	return commandline.WithPrefix(commandline.CompleteByServer(w.command, func(ctx context.Context) []string {
		if w.connect(ctx) != nil {
			return nil
		}
		return words(w.client.Objects(ctx, w.namespace))
	}), begun)
}

// namesOf returns the names of the objects of a type.
func (w *whyCommand) namesOf(objects recordedObjects, word string) []string {
	mapping, err := w.client.Resource(word)
	if err != nil {
		return nil
	}
	return objects[mapping.Resource.GroupResource()].UnsortedList()
}
