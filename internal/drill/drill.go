// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drill finds out which writes stop while the backend of webhooks is down, and whether it can come back
// by itself. Nothing is called and nothing is written.
//
//	documents ─▶ inventory ─▶ for each backend that is down:
//	                            writes of nodes, controllers and users ─▶ asked under Fail: they stop
//	                                                                   └▶ asked under Ignore: they wait
//	                            writes that bring the backend back     ─▶ one stops: it can't heal by itself
package drill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"gatehouse.dev/internal/inventory"
	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/internal/review/input"
)

// Options say what to drill.
type Options struct {
	// Documents are the objects of the cluster. Those without a namespace are in Namespace.
	Documents []input.Document
	Namespace string
	// Complete reports whether the cluster has no other objects of the kinds of package inventory.
	Complete bool
	// Down names backends that are down together, each as a webhook, a configuration, CONFIGURATION/WEBHOOK, the
	// namespace and name of a Service, or a URL. If it is empty, each backend is down alone, one after the other.
	Down []string
}

// requestSeconds is the time that kube-apiserver gives a write.
const requestSeconds = 34

// Run runs the drills. An error says that a name of Options.Down is none.
func Run(ctx context.Context, o Options) (*Report, error) {
	found, errs := inventory.New(o.Documents, o.Namespace, o.Complete)
	report := &Report{APIVersion: APIVersion, Kind: Kind, Outages: []Outage{}}
	report.Fail(errs...)
	backends := backendsOf(found)
	switch nothing := "there is no webhook configuration among " + number(len(o.Documents), "object", "objects") +
		": there is nothing to drill"; {
	case len(backends) > 0 || len(errs) > 0:
	case o.Complete:
		report.Notes = append(report.Notes, nothing)
	default: // a program may register its webhooks when it runs
		report.Fail(errors.New(nothing + " (some programs register theirs when they run: drill the cluster with --context)"))
	}
	drills := [][]*backend{}
	if len(o.Down) > 0 {
		down, err := choose(backends, o.Down)
		if err != nil {
			return nil, err
		}
		drills = append(drills, down)
	} else {
		for _, b := range backends {
			drills = append(drills, []*backend{b})
		}
	}
	writes := writesOf(found)
	for _, down := range drills {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d := &drilling{Inventory: found, ctx: ctx, unsure: map[string]bool{}}
		report.Outages = append(report.Outages, d.run(down, writes))
		report.Notes = append(report.Notes, slices.Sorted(maps.Keys(d.unsure))...)
	}
	slices.Sort(report.Notes)
	report.Notes = slices.Compact(report.Notes)
	report.summarize()
	return report, nil
}

// A backend serves webhooks.
type backend struct {
	// name is "Service NAMESPACE/NAME", or the beginning of a URL.
	name     string
	webhooks []*inventory.Webhook
}

// backendsOf returns the backends of all webhooks, in the order of these.
func backendsOf(i *inventory.Inventory) (all []*backend) {
	by := map[string]*backend{}
	for _, w := range i.Webhooks {
		name := backendName(w)
		if by[name] == nil {
			by[name] = &backend{name: name}
			all = append(all, by[name])
		}
		by[name].webhooks = append(by[name].webhooks, w)
	}
	return all
}

// backendName names the backend of a webhook.
func backendName(w *inventory.Webhook) string {
	switch c := &w.ClientConfig; {
	case c.Service != nil:
		return "Service " + c.Service.Namespace + "/" + c.Service.Name
	case c.URL != nil:
		if u, err := url.Parse(*c.URL); err == nil {
			return u.Scheme + "://" + u.Host
		}
		return *c.URL
	}
	return "webhook " + w.Name + " without a backend"
}

// names returns the names by which users call a backend.
func (b *backend) names() []string {
	names := []string{b.name, strings.TrimPrefix(b.name, "Service ")}
	for _, w := range b.webhooks {
		names = append(names, w.Name, w.Configuration(), w.Configuration()+"/"+w.Name)
		if w.ClientConfig.URL != nil {
			names = append(names, *w.ClientConfig.URL)
		}
	}
	return names
}

// choose returns the backends that names mean, each once.
func choose(backends []*backend, names []string) (chosen []*backend, err error) {
	var errs []error
	for _, name := range names {
		known, found := []string{}, false
		for _, b := range backends {
			all := b.names()
			known = append(known, all...)
			if !slices.Contains(all, name) {
				continue
			}
			if found = true; !slices.Contains(chosen, b) {
				chosen = append(chosen, b)
			}
		}
		if !found {
			errs = append(errs, fmt.Errorf("no webhook, configuration, Service or URL %q is among the webhooks' backends%s",
				name, nearest.Meant(name, known)))
		}
	}
	return chosen, errors.Join(errs...)
}

// A drilling is one drill.
type drilling struct {
	*inventory.Inventory
	ctx context.Context
	// unsure are notes about webhooks of which it can't be known whether they are asked.
	unsure map[string]bool
}

// run finds out what the end of some backends stops.
func (d *drilling) run(down []*backend, writes []areaWrite) Outage {
	o := Outage{Heals: Yes}
	var webhooks []*inventory.Webhook
	for _, b := range down {
		o.Backends = append(o.Backends, b.name)
		webhooks = append(webhooks, b.webhooks...)
	}
	for _, w := range webhooks {
		o.Webhooks = append(o.Webhooks, Webhook{Kind: w.Document.Object.GetKind(), Configuration: w.Configuration(), Name: w.Name,
			FailurePolicy: string(*w.FailurePolicy), Source: w.Document.Source})
	}
	stops, waits := newTally(), newTally()
	for _, write := range writes {
		if e := d.effectOf(webhooks, write.Write); e.stops {
			stops.add(write, e)
		} else if e.seconds > 0 {
			waits.add(write, e)
		}
	}
	o.Stops, o.Waits = stops.areas, waits.areas
	for _, b := range down {
		recovery, known := d.recovery(b)
		if !known && o.Heals == Yes {
			o.Heals = Unknown
		}
		for _, write := range recovery {
			if e := d.effectOf(webhooks, write); e.stops {
				o.Heals = No
				o.Blocked = append(o.Blocked, Blocked{What: write.What, By: e.by})
			}
		}
	}
	return o
}

// An effect is what webhooks that are down do to a write.
type effect struct {
	// stops reports whether the write is refused. Otherwise it waits for up to seconds.
	stops   bool
	seconds int
	by      []string
}

// effectOf returns what webhooks that are down do to a write.
func (d *drilling) effectOf(webhooks []*inventory.Webhook, write *inventory.Write) (e effect) {
	var refusing, ignored []string
	mutating, validating := 0, 0
	for _, w := range webhooks {
		asked, err := d.Asks(d.ctx, w, write)
		if err != nil {
			d.unsure[fmt.Sprintf("webhook %s: whether it is asked about %s isn't known: %v", w.Name, write.What, err)] = true
		}
		switch {
		case !asked:
		case w.Fails():
			refusing = append(refusing, w.Name)
		case w.Mutating: // one is asked after the other
			ignored, mutating = append(ignored, w.Name), mutating+int(*w.TimeoutSeconds)
		default: // they are asked at the same time
			ignored, validating = append(ignored, w.Name), max(validating, int(*w.TimeoutSeconds))
		}
	}
	e.seconds = mutating + validating
	switch {
	case len(refusing) > 0:
		e.stops, e.by = true, refusing
	case e.seconds >= requestSeconds:
		e.stops, e.by = true, ignored
	default:
		e.by = ignored
	}
	return e
}

// recovery returns the writes that bring a backend back without anybody's help. known is false if the backend
// is outside the cluster.
func (d *drilling) recovery(b *backend) (writes []*inventory.Write, known bool) {
	at := d.Backend(b.webhooks[0])
	if at == nil {
		return nil, false
	}
	for _, workload := range at.Workloads {
		writes = append(writes, inventory.PodCreation(workload))
	}
	if len(at.Workloads) == 0 {
		writes = append(writes, inventory.AnyPod(at.Name.Namespace))
	}
	for _, write := range inventory.Healing(at.Name.Namespace) {
		if write.User.GetName() != inventory.Administrator().GetName() {
			writes = append(writes, write)
		}
	}
	for _, workload := range d.Workloads {
		if workload.NodeCritical() && workload.Owner == nil && !slices.Contains(at.Workloads, workload) {
			writes = append(writes, inventory.PodCreation(workload))
		}
	}
	writes = append(writes, inventory.NodeLeases()...)
	for _, w := range b.webhooks {
		if namespace, name, ok := strings.Cut(w.Document.Object.GetAnnotations()[inventory.CertificateAnnotation], "/"); ok {
			writes = append(writes, inventory.Certificates(namespace, name)...)
		}
	}
	return writes, true
}
