// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/review/input"
)

// APIVersion and Kind identify a snapshot's first document.
const (
	APIVersion = "gatehouse.dev/v1alpha1"
	Kind       = "Snapshot"
)

// header is the first document of a snapshot. The objects follow.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Version is the version of the cluster.
	Version string `json:"version"`
	// Notes say what reviews should know of the snapshot.
	Notes []string `json:"notes,omitempty"`
	// Gaps are what the cluster has and could not be read.
	Gaps []Gap `json:"gaps,omitempty"`
}

// Write writes a state as a snapshot: documents in YAML, in a stable order.
func (s *State) Write(w io.Writer) error {
	documents := []any{header{APIVersion, Kind, s.Version, s.Notes, s.Gaps}}
	for _, object := range s.Objects {
		documents = append(documents, object.Object)
	}
	for i, document := range documents {
		data, err := yaml.Marshal(document)
		if err != nil {
			return err
		}
		if i > 0 {
			data = append([]byte("---\n"), data...)
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// Parse divides the documents of a state into the snapshots among them, one for each file that
// begins as one, and all others.
func Parse(documents []input.Document) (snapshots []*State, others []input.Document) {
	byFile := map[string]*State{}
	for _, d := range documents {
		if d.Object.GetAPIVersion() == APIVersion && d.Object.GetKind() == Kind {
			var h header
			converter := runtime.DefaultUnstructuredConverter
			if err := converter.FromUnstructuredWithValidation(d.Object.Object, &h, true); err != nil {
				h.Gaps = append(h.Gaps, Gap{Message: fmt.Sprintf("%s: the snapshot can't be read: %v", d.Source, err)})
			}
			s := &State{Version: h.Version, Notes: h.Notes, Gaps: h.Gaps}
			byFile[d.Source.File] = s
			snapshots = append(snapshots, s)
		}
	}
	for _, d := range documents {
		switch s := byFile[d.Source.File]; {
		case s == nil:
			others = append(others, d)
		case d.Object.GetKind() != Kind || d.Object.GetAPIVersion() != APIVersion:
			s.Objects = append(s.Objects, d.Object)
		}
	}
	return snapshots, others
}

// Documents returns the objects as documents, to be ordered and stored like others.
func (s *State) Documents() []input.Document {
	documents := make([]input.Document, len(s.Objects))
	for i, object := range s.Objects {
		documents[i] = input.Document{Source: input.Source{File: "the cluster's state", Line: 1}, Object: object}
	}
	return documents
}

// AppendObjects writes all objects of a cluster behind a snapshot that was written, one by one, without those
// that the snapshot has. It leaves out Secrets. With hide it hides values, as HideValues does. It returns
// the gaps of what could not be read.
func (c *Cluster) AppendObjects(ctx context.Context, w io.Writer, s *State, hide bool) ([]Gap, error) {
	resources, gaps, err := c.Resources(ctx)
	if err != nil {
		return nil, err
	}
	has := map[string]bool{}
	for _, object := range s.Objects {
		has[keyOf(object)] = true
	}
	for _, resource := range resources {
		if resource.Kind.GroupKind() == secrets {
			continue
		}
		gap, err := c.Each(ctx, resource, func(object *unstructured.Unstructured) error {
			if has[keyOf(object)] || IsAPIServer(object) {
				return nil
			}
			clean(object, true)
			if hide && !showsValues(object.GroupVersionKind()) {
				decision.HideValues(object.Object, func(string) bool { return false })
			}
			data, err := yaml.Marshal(object.Object)
			if err != nil {
				return err
			}
			_, err = w.Write(append([]byte("---\n"), data...))
			return err
		})
		if err != nil {
			return nil, err
		}
		if gap != nil {
			gaps = append(gaps, *gap)
		}
	}
	return gaps, nil
}
