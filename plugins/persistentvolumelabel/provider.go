// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

// remembered bounds the remembered answers of a cloud.
const remembered = 1024

// A provider knows the volumes of a cloud. It is called concurrently.
type provider interface {
	// locate returns the location of the volume with that name. zoneLabel is the zone in its
	// labels, or "", for clouds in which a name is unique only in its zone. An error is the
	// refusal's reason and holds no secrets.
	locate(ctx context.Context, volume, zoneLabel string) (location, error)
}

// A location is where a volume is.
type location struct {
	region string
	zones  []string // sorted; one or more
}

// zoneLabel returns the location's zones as the value of a zone label.
func (l location) zoneLabel() string { return strings.Join(l.zones, zoneDelimiter) }

// notConfigured is the provider of a cloud that isn't configured.
type notConfigured struct{ cloud, field string }

func (n notConfigured) locate(context.Context, string, string) (location, error) {
	return location{}, fmt.Errorf("unable to build %s: the configuration of %s has no field %s", n.cloud, name, n.field)
}

// rememberingProvider remembers the answers of a provider, but no failures.
type rememberingProvider struct {
	provider
	ttl     time.Duration
	answers *cache.LRUExpireCache // locations by their question
}

func withMemory(p provider, ttl time.Duration) provider {
	if ttl == 0 {
		return p
	}
	return &rememberingProvider{p, ttl, cache.NewLRUExpireCache(remembered)}
}

func (r *rememberingProvider) locate(ctx context.Context, volume, zoneLabel string) (location, error) {
	if known, ok := r.answers.Get(question(volume, zoneLabel)); ok {
		return known.(location), nil
	}
	found, err := r.provider.locate(ctx, volume, zoneLabel)
	if err != nil {
		return location{}, err
	}
	r.answers.Add(question(volume, zoneLabel), found, r.ttl)
	if zoneLabel == "" {
		// Remember it also for the question that the plugin asks when it sees its own label.
		r.answers.Add(question(volume, found.zoneLabel()), found, r.ttl)
	}
	return found, nil
}

// question returns a hash, because what users write in names and labels can be large.
func question(volume, zoneLabel string) [sha256.Size]byte {
	return sha256.Sum256([]byte(volume + "\x00" + zoneLabel))
}
