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
)

// writers are the servers that are compared: Gatehouse as it is by default, controllers and
// decisions included, and its peer.
var writers = []subject{
	{"Gatehouse", func(ctx context.Context, s *instance) error { return s.runGatehouse(ctx) }},
	subjects[peer],
}

// dialects are how clients talk: as most programs do, and as Kubernetes' own do.
var dialects = []struct {
	name string
	// speak makes of an administrator's configuration that of a client.
	speak func(ctx context.Context, config *rest.Config) (*rest.Config, error)
}{
	{"JSON, tokens", withToken},
	{"protobuf, certificates", withProtobuf},
}

// withToken is a service account's that may do everything.
func withToken(ctx context.Context, config *rest.Config) (*rest.Config, error) {
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
	many              []loadFigures // by dialect
	memory            samples       // MB, after the load
	again, list, idle samples       // seconds, seconds, MB
}

// measureWrites has both servers up and gives each its batches in turn, of one dialect and then of
// the other, in an order that changes from round to round. At the end it lists all pods, and starts
// each server again, alone.
func measureWrites(ctx context.Context, o options, bin string) (string, error) {
	all := make([]*writeFigures, len(writers))
	loads := make([][]*load, len(writers))
	stop := func() {
		for _, l := range loads {
			if l != nil {
				l[0].server.stop()
			}
		}
	}
	defer stop()
	for i, s := range writers {
		dir, err := os.MkdirTemp(bin, "writes-")
		if err != nil {
			return "", err
		}
		server, err := start(ctx, s, bin, dir)
		if err != nil {
			return "", err
		}
		all[i] = &writeFigures{many: make([]loadFigures, len(dialects))}
		loads[i] = make([]*load, len(dialects))
		for d, dialect := range dialects {
			l := &load{server: server, prefix: fmt.Sprintf("web-%d-", d), speak: dialect.speak}
			loads[i][d] = l
			if err := l.prepare(ctx); err != nil {
				return "", fmt.Errorf("%s: %s: %w", s.name, dialect.name, err)
			}
		}
	}
	for round := range o.rounds {
		for d := range dialects {
			for turn := range writers {
				i := (round + turn) % len(writers)
				if err := sleep(ctx, settle); err != nil {
					return "", err
				}
				b, err := loads[i][d].profiled(ctx, o, fmt.Sprintf("%d-%d", i, d), o.pods)
				if err != nil {
					return "", fmt.Errorf("%s: %s: %w", writers[i].name, dialects[d].name, err)
				}
				all[i].many[d].add(b)
				progress("writes %d of %d: %-23s %-23s %.0f/s, p99 %.0f ms, %.2f ms of CPU each", round+1, o.rounds,
					writers[i].name, dialects[d].name, b.rate, milliseconds(b.p99), milliseconds(b.cpu))
			}
		}
	}
	pods := 0
	for i := range writers {
		if err := sleep(ctx, o.idle); err != nil {
			return "", err
		}
		f, l := all[i], loads[i][1]
		m, err := l.server.memory()
		if err != nil {
			return "", err
		}
		f.memory = append(f.memory, m.rss)
		for range o.rounds {
			begin := time.Now()
			list, err := l.clients[0].CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				return "", err
			}
			f.list, pods = append(f.list, time.Since(begin).Seconds()), len(list.Items)
		}
		progress("%s: %.0f MB with %d pods, listed in %.2f s", writers[i].name, m.rss, pods, f.list.median())
	}
	stop()
	for range o.starts {
		for i, s := range writers {
			again, err := start(ctx, s, bin, loads[i][0].server.dir)
			if err != nil {
				return "", err
			}
			again.stop()
			progress("start with %d pods: %-23s %.2f s", pods, s.name, again.start.Seconds())
			all[i].again = append(all[i].again, again.start.Seconds())
		}
	}
	return writesReport(all, pods), nil
}

func writesReport(all []*writeFigures, pods int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %d clients | %s | %s | ratio |\n| --- | ---: | ---: | ---: |\n", manyClients, writers[0].name,
		writers[1].name)
	row := func(name, unit string, digits int, of func(*writeFigures) samples) {
		ours, theirs := of(all[0]), of(all[1])
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, ours.show(digits, unit), theirs.show(digits, unit),
			ours.over(theirs).show(2, ""))
	}
	for d, dialect := range dialects {
		of := func(figure func(*loadFigures) samples) func(*writeFigures) samples {
			return func(f *writeFigures) samples { return figure(&f.many[d]) }
		}
		row("creates/s, "+dialect.name, "", 0, of(func(f *loadFigures) samples { return f.rate }))
		row("… p99", " ms", 0, of(func(f *loadFigures) samples { return f.p99 }))
		row("… CPU time, each", " ms", 2, of(func(f *loadFigures) samples { return f.cpu }))
	}
	row(fmt.Sprintf("memory after that, %d pods, RSS", pods), " MB", 0,
		func(f *writeFigures) samples { return f.memory })
	row("… list of them", " s", 2, func(f *writeFigures) samples { return f.list })
	row("… start to `/readyz`", " s", 2, func(f *writeFigures) samples { return f.again })
	return b.String()
}

// profiled makes pods with all clients. With a directory for profiles it has each of the server's
// processes that can tell write one of the processor's time into it.
func (l *load) profiled(ctx context.Context, o options, name string, n int) (batch, error) {
	if o.profile == "" {
		return l.create(ctx, manyClients, n)
	}
	done := make(chan error, 1)
	go func() {
		admin, err := kubernetes.NewForConfig(l.server.config)
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
