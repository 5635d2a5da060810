// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"gatehouse.dev/test/peers"
)

// writers are the servers that are compared: Gatehouse as it is by default, controllers and
// decisions included, and its peer.
var writers = []subject{
	{"Gatehouse", func(ctx context.Context, s *peers.Server) error { return s.RunGatehouse(ctx) }},
	subjects[kubernetesPeer],
}

// dialects are the encodings and credentials of clients: those of most programs, and those of
// Kubernetes' own.
var dialects = []struct {
	name string
	// speak makes a client's configuration from an administrator's.
	speak func(ctx context.Context, config *rest.Config) (*rest.Config, error)
}{
	{"JSON, tokens", tokenConfig},
	{"protobuf, certificates", protobufConfig},
}

// tokenConfig makes the configuration of a client that sends JSON, and the token of a service
// account that may do everything.
func tokenConfig(ctx context.Context, config *rest.Config) (*rest.Config, error) {
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	const name = "writer"
	accounts := admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem,
			Name: name}},
	}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](7200)}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token.Status.Token
	config.ContentType = runtime.ContentTypeJSON
	return config, nil
}

// writeFigures are a server's.
type writeFigures struct {
	many    []loadFigures // by dialect
	watched watchedFigures
	idle    samples   // MB, before the load
	memory  []samples // MB, after a load
	list    samples   // seconds
	again   []samples // seconds
}

// measureWrites starts both servers and gives each its batches in turn, of one dialect and then of
// the other, in an order that changes from round to round. At the end each makes pods that many
// clients watch, lists them all, and is started again, alone. With -fill this is done once more
// with as many pods.
func measureWrites(ctx context.Context, o options, bin string) (string, error) {
	w := &writes{options: o, all: make([]*writeFigures, len(writers)), loads: make([][]*load, len(writers))}
	defer w.stop()
	for i := range writers {
		if err := w.prepare(ctx, i, bin); err != nil {
			return "", fmt.Errorf("%s: %w", writers[i].name, err)
		}
	}
	if err := w.runBatches(ctx); err != nil {
		return "", err
	}
	for range max(o.rounds/2, 1) {
		for i := range writers {
			if err := w.loads[i][1].createWatched(ctx, &w.all[i].watched); err != nil {
				return "", fmt.Errorf("%s: %w", writers[i].name, err)
			}
			f := w.all[i].watched
			last := len(f.rate) - 1
			progress("watched: %-23s %.0f/s, p99 %.0f ms, %.2f ms of CPU each, %.0f ms late", writers[i].name,
				f.rate[last], f.p99[last], f.cpu[last], f.late[last])
		}
	}
	if err := w.restart(ctx); err != nil {
		return "", err
	}
	if missing := o.fill - w.pods[0]; missing > 0 {
		if err := w.fill(ctx, missing); err != nil {
			return "", err
		}
	}
	return w.report(), nil
}

// writes is the measurement.
type writes struct {
	options options
	all     []*writeFigures
	loads   [][]*load // by writer and dialect
	pods    []int     // that there were at each start
}

func (w *writes) stop() {
	for _, l := range w.loads {
		if l != nil {
			l[0].server.Stop()
		}
	}
}

func (w *writes) prepare(ctx context.Context, i int, bin string) error {
	dir, err := os.MkdirTemp(bin, "writes-")
	if err != nil {
		return err
	}
	server, err := start(ctx, writers[i], bin, dir)
	if err != nil {
		return err
	}
	w.loads[i] = []*load{{server: server}}
	if err := sleep(ctx, w.options.idle); err != nil {
		return err
	}
	m, err := memoryOf(server.Processes...)
	if err != nil {
		return err
	}
	w.all[i] = &writeFigures{many: make([]loadFigures, len(dialects)), idle: samples{m.rss}}
	var loads []*load
	for d, dialect := range dialects {
		l := &load{server: server, prefix: fmt.Sprintf("web-%d-", d), speak: dialect.speak}
		loads = append(loads, l)
		if err := l.prepare(ctx); err != nil {
			return fmt.Errorf("%s: %w", dialect.name, err)
		}
	}
	w.loads[i] = loads
	return nil
}

// runBatches makes the batches of all rounds.
func (w *writes) runBatches(ctx context.Context) error {
	for round := range w.options.rounds {
		for d := range dialects {
			for turn := range writers {
				i := (round + turn) % len(writers)
				if err := sleep(ctx, settle); err != nil {
					return err
				}
				b, err := w.loads[i][d].createProfiled(ctx, w.options, fmt.Sprintf("%d-%d", i, d), w.options.pods)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", writers[i].name, dialects[d].name, err)
				}
				w.all[i].many[d].add(b)
				progress("writes %d of %d: %-23s %-23s %.0f/s, p99 %.0f ms, %.2f ms of CPU each", round+1,
					w.options.rounds, writers[i].name, dialects[d].name, b.rate, milliseconds(b.p99),
					milliseconds(b.cpu))
			}
		}
	}
	return nil
}

// restart reads the memory of each server when it is calm, lists the pods, and starts each server
// again, alone.
func (w *writes) restart(ctx context.Context) error {
	pods := 0
	for i := range writers {
		if err := sleep(ctx, w.options.idle); err != nil {
			return err
		}
		f, l := w.all[i], w.loads[i][1]
		m, err := memoryOf(l.server.Processes...)
		if err != nil {
			return err
		}
		f.memory = append(f.memory, samples{m.rss})
		f.list = nil
		for range w.options.rounds {
			begin := time.Now()
			list, err := l.clients[0].CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				return err
			}
			f.list, pods = append(f.list, time.Since(begin).Seconds()), len(list.Items)
		}
		progress("%s: %.0f MB with %d pods, listed in %.2f s", writers[i].name, m.rss, pods, f.list.median())
	}
	w.pods = append(w.pods, pods)
	w.stop()
	for i := range writers {
		w.all[i].again = append(w.all[i].again, nil)
	}
	for range w.options.starts {
		for i, s := range writers {
			server, err := start(ctx, s, w.loads[i][0].server.Programs, w.loads[i][0].server.Dir)
			if err != nil {
				return err
			}
			server.Stop()
			progress("start with %d pods: %-23s %.2f s", pods, s.name, server.StartTime.Seconds())
			starts := w.all[i].again
			starts[len(starts)-1] = append(starts[len(starts)-1], server.StartTime.Seconds())
		}
	}
	return nil
}

// fill starts the servers once more, makes so many pods, and does the same again.
func (w *writes) fill(ctx context.Context, missing int) error {
	for i, s := range writers {
		server, err := start(ctx, s, w.loads[i][0].server.Programs, w.loads[i][0].server.Dir)
		if err != nil {
			return err
		}
		l := &load{server: server, prefix: "more-"}
		w.loads[i] = []*load{l, l}
		if err := l.prepare(ctx); err != nil {
			return err
		}
		if _, err := l.create(ctx, manyClients, missing-warmUp); err != nil {
			return err
		}
	}
	return w.restart(ctx)
}

func (w *writes) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %d clients | %s | %s | ratio |\n| --- | ---: | ---: | ---: |\n", manyClients, writers[0].name,
		writers[1].name)
	row := func(name, unit string, digits int, figure func(*writeFigures) samples) {
		ours, theirs := figure(w.all[0]), figure(w.all[1])
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, ours.show(digits, unit), theirs.show(digits, unit),
			ours.ratiosTo(theirs).show(2, ""))
	}
	for d, dialect := range dialects {
		inDialect := func(figure func(*loadFigures) samples) func(*writeFigures) samples {
			return func(f *writeFigures) samples { return figure(&f.many[d]) }
		}
		row("creates/s, "+dialect.name, "", 0, inDialect(func(f *loadFigures) samples { return f.rate }))
		row("… p99", " ms", 0, inDialect(func(f *loadFigures) samples { return f.p99 }))
		row("… CPU time, each", " ms", 2, inDialect(func(f *loadFigures) samples { return f.cpu }))
	}
	row(fmt.Sprintf("%d creates/s asked for, %d watchers", watchedRate, watchers), "", 0,
		func(f *writeFigures) samples { return f.watched.rate })
	row("… p99", " ms", 0, func(f *writeFigures) samples { return f.watched.p99 })
	row("… CPU time, each", " ms", 2, func(f *writeFigures) samples { return f.watched.cpu })
	row("… all events are there after", " ms", 0, func(f *writeFigures) samples { return f.watched.late })
	row("idle memory, RSS", " MB", 0, func(f *writeFigures) samples { return f.idle })
	for i, pods := range w.pods {
		row(fmt.Sprintf("memory with %d pods, RSS", pods), " MB", 0,
			func(f *writeFigures) samples { return f.memory[i] })
		row("… start to `/readyz`", " s", 2, func(f *writeFigures) samples { return f.again[i] })
	}
	row(fmt.Sprintf("list of %d pods", w.pods[len(w.pods)-1]), " s", 2, func(f *writeFigures) samples { return f.list })
	return b.String()
}

// createProfiled makes pods with all clients. With -profile the server writes a profile of its
// processor time meanwhile, if it can.
func (l *load) createProfiled(ctx context.Context, o options, name string, n int) (batch, error) {
	if o.profile == "" {
		return l.create(ctx, manyClients, n)
	}
	done := make(chan error, 1)
	go func() {
		admin, err := kubernetes.NewForConfig(l.server.Config)
		if err != nil {
			done <- err
			return
		}
		data, err := admin.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", "3").
			DoRaw(ctx)
		if err == nil {
			err = os.WriteFile(filepath.Join(o.profile, name+".pprof"), data, 0o600)
		}
		done <- err
	}()
	b, err := l.create(ctx, manyClients, n)
	if profileErr := <-done; err == nil {
		err = profileErr
	}
	return b, err
}
