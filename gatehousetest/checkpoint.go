// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"gatehouse.dev/apiserver"
)

const (
	// atOnce is how many objects are restored at a time. etcd writes what arrives together to disk
	// together.
	atOnce = 64
	// passes bounds how often Reset undoes what controllers have written meanwhile.
	passes = 10
	// maxNamedKeys bounds the number of keys that an error names.
	maxNamedKeys = 3

	// eventsPrefix begins the keys of events.
	eventsPrefix = "events/"
)

// ownerKinds are the kinds whose controllers make objects, in the order in which they are deleted.
var ownerKinds = [][]string{
	{"cronjobs", "deployments"},
	{"controllers", "daemonsets", "jobs", "replicasets", "statefulsets"}, // the first of replication
}

// A Checkpoint holds what a server had stored at a moment.
type Checkpoint struct {
	server *Server
	prefix string
	kept   map[string]storedValue // by key
}

type storedValue struct {
	value   []byte
	version int64 // etcd's
}

// Checkpoint remembers what the server has stored. It first waits until the controllers have set up
// every namespace and the aggregated ClusterRoles. It needs a server of the test's own.
//
//	before, err := srv.Checkpoint(ctx)
//	…
//	t.Cleanup(func() { before.Reset(context.Background()) })
func (s *Server) Checkpoint(ctx context.Context) (*Checkpoint, error) {
	if s.Etcd == nil {
		return nil, errors.New("a checkpoint needs a server with an etcd of its own")
	}
	if err := s.awaitSettled(ctx); err != nil {
		return nil, err
	}
	c := &Checkpoint{server: s, prefix: s.config.API.Etcd.StorageConfig.Prefix + "/"}
	current, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	c.kept = make(map[string]storedValue, len(current))
	for key, s := range current {
		if !strings.HasPrefix(key, c.prefix+eventsPrefix) { // which end by themselves
			c.kept[key] = s
		}
	}
	return c, nil
}

// Reset restores what was stored, in milliseconds. Objects that were made since are removed,
// without finalizers and grace periods. Changed and deleted objects get their old content. Clients
// that watch see these events. When Reset returns, admission and authorization use the restored
// objects.
//
// End whatever the test still has running before: what it writes afterwards stays.
func (c *Checkpoint) Reset(ctx context.Context) error {
	var restored []string
	for pass := range passes {
		var err error
		restored, err = c.restore(ctx)
		if err == nil && (len(restored) > 0 || pass == 0) {
			err = c.server.running.AwaitStored(ctx)
		}
		if err != nil {
			return fmt.Errorf("resetting the server: %w", err)
		}
		if len(restored) == 0 {
			return nil
		}
	}
	return fmt.Errorf("resetting the server: something goes on writing %s: what a test runs must end before",
		strings.Join(restored[:min(len(restored), maxNamedKeys)], ", "))
}

// restore restores the objects, and returns the keys of those that differed.
func (c *Checkpoint) restore(ctx context.Context) ([]string, error) {
	current, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	etcd := c.server.Etcd.Client()
	// Owners go first: their controllers would make again what is gone.
	made := make([][]string, len(ownerKinds)+1)
	for key := range current {
		if _, kept := c.kept[key]; !kept {
			kind, _, _ := strings.Cut(strings.TrimPrefix(key, c.prefix), "/")
			turn := slices.IndexFunc(ownerKinds, func(kinds []string) bool { return slices.Contains(kinds, kind) })
			if turn < 0 {
				turn = len(ownerKinds)
			}
			made[turn] = append(made[turn], key)
		}
	}
	var restored []string
	for _, keys := range made {
		for _, key := range keys {
			if !strings.HasPrefix(key, c.prefix+eventsPrefix) { // which nothing depends on, and which come late
				restored = append(restored, key)
			}
		}
		deletions, ctx := errgroup.WithContext(ctx)
		deletions.SetLimit(atOnce)
		for _, key := range keys {
			deletions.Go(func() error {
				_, err := etcd.KV.Delete(ctx, key)
				return err
			})
		}
		if err := deletions.Wait(); err != nil {
			return nil, err
		}
	}
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(atOnce)
	versions := map[string]*int64{}
	for key, was := range c.kept {
		is, there := current[key]
		if there && (is.version == was.version || bytes.Equal(is.value, was.value)) {
			continue
		}
		restored = append(restored, key)
		version := new(int64)
		versions[key] = version
		writes.Go(func() error {
			put, err := etcd.KV.Put(ctx, key, string(was.value))
			if err == nil {
				*version = put.Header.Revision
			}
			return err
		})
	}
	if err := writes.Wait(); err != nil {
		return nil, err
	}
	for key, version := range versions {
		c.kept[key] = storedValue{c.kept[key].value, *version}
	}
	return restored, nil
}

// read returns everything that is stored, except for what servers store about themselves.
func (c *Checkpoint) read(ctx context.Context) (map[string]storedValue, error) {
	response, err := c.server.Etcd.Client().KV.Get(ctx, c.prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	current := make(map[string]storedValue, len(response.Kvs))
	for _, kv := range response.Kvs {
		key := string(kv.Key)
		if !apiserver.OwnKey(strings.TrimPrefix(key, c.prefix)) {
			current[key] = storedValue{kv.Value, kv.ModRevision}
		}
	}
	return current, nil
}
