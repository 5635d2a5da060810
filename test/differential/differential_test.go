package differential

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
	"gatehouse.dev/test/peers"
)

// differentialTimeout bounds the whole comparison, the building of the programs included.
const differentialTimeout = 15 * time.Minute

// built is in the environment: a directory with programs that were built already.
const built = "DIFFERENTIAL_BIN"

// TestDifferential sends the same requests to Gatehouse and to kube-apiserver, one after the other:
// status, message, causes, object and what the audit log says of admission must be alike, but for
// what docs/differences.md names.
func TestDifferential(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), differentialTimeout)
	defer cancel()
	bin := os.Getenv(built)
	if bin == "" {
		bin = t.TempDir()
		if err := peers.Build(ctx, bin); err != nil {
			t.Fatal(err)
		}
	}
	document, err := os.ReadFile("../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := strings.Join(strings.Fields(string(document)), " ")
	t.Run("Flags", func(t *testing.T) {
		startPair(ctx, t, bin, optional, gates...).compare(ctx, t, documented, append(requests(), ofGates(t)...))
	})
	t.Run("Review", func(t *testing.T) {
		config := server.NewConfig(plugins.List)
		config.Admission.Enable = optional
		compareReview(ctx, t, startPair(ctx, t, bin, optional), config, cluster, requests()[len(cluster):],
			ofCharts(ctx, t, bin))
	})
	t.Run("Configured", func(t *testing.T) { compareConfigured(ctx, t, bin, documented) })
	t.Run("Outside", func(t *testing.T) { compareOutside(ctx, t, bin) })
	t.Run("Callers", func(t *testing.T) { authenticateCallers(ctx, t, bin) })
	t.Run("Chart", func(t *testing.T) { runChart(ctx, t, bin) })
	t.Run("Alone", func(t *testing.T) {
		p := startAlone(ctx, t, bin)
		t.Run("Why", func(t *testing.T) { askWhy(ctx, t, bin, p) })
		t.Run("Readme", func(t *testing.T) { readReadme(ctx, t, bin, p) })
	})
}

// optional are plugins that are off by default, and need no configuration.
var optional = []string{"NamespaceExists", "NodeRestriction", "DenyServiceExternalIPs",
	"OwnerReferencesPermissionEnforcement", "ExtendedResourceToleration", "PodNodeSelector",
	"PodTolerationRestriction", "LimitPodHardAntiAffinityTopology", "AlwaysPullImages"}

// A pair are the two servers, with the same plugins and flags.
type pair struct{ ours, theirs compared }

// startPair starts them, with plugins besides those that are on by default.
func startPair(ctx context.Context, t *testing.T, bin string, enable []string, flags ...string) pair {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	flags = append(flags, "--audit-policy-file="+policy, "--audit-log-path="+auditLog)
	ours := append([]string{"--controllers=", "--enable-admission-plugins=" + strings.Join(enable, ",")}, flags...)
	names := pluginNames(t, enable)
	return pair{startServer(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
		return s.RunGatehouse(ctx, ours...)
	}), startServer(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
		return s.RunKubeAPIServer(ctx, names, flags...)
	})}
}

// pluginNames returns the names of the plugins that are on by default and of those in enable, in the
// order in which they run.
func pluginNames(t *testing.T, enable []string) []string {
	t.Helper()
	options := config.Options{Enable: enable}
	selected, err := options.Select(plugins.List)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range selected {
		names = append(names, d.Name)
	}
	return names
}

// compare sends requests to both.
func (p pair) compare(ctx context.Context, t *testing.T, documented string, requests []request) {
	t.Helper()
	different := 0
	check := func(what string, differs, got, want string) {
		switch {
		case differs != "" && got == want:
			t.Errorf("%s: Gatehouse and kube-apiserver are alike, other than expected: %s", what, differs)
		case differs != "" && !strings.Contains(documented, differs):
			t.Errorf("%s: docs/differences.md doesn't say: %s", what, differs)
		case differs == "" && got != want:
			different++
			t.Errorf("%s:\nGatehouse\n%s\nkube-apiserver\n%s", what, got, want)
		}
	}
	for i, r := range requests {
		r.id = fmt.Sprint("request-", i)
		check(fmt.Sprintf("request %d, %s", i, r), r.differs, p.ours.settled(ctx, t, r), p.theirs.settled(ctx, t, r))
	}
	last := fmt.Sprint("request-", len(requests)-1)
	got, want := p.ours.audited(ctx, t, last), p.theirs.audited(ctx, t, last)
	for i, r := range requests {
		if id := fmt.Sprint("request-", i); r.differs == "" {
			check(fmt.Sprintf("the audit log of request %d, %s", i, r), r.audits, got[id], want[id])
		}
	}
	t.Logf("%d requests, %d answered differently for no reason that is documented", len(requests), different)
}

// compared is one of the two servers.
type compared struct {
	url    string
	client *http.Client
	audit  string
}

// startServer starts a server on a new directory. The test's end stops it.
func startServer(ctx context.Context, t *testing.T, bin string, run func(context.Context, *peers.Server) error) compared {
	t.Helper()
	running := startProcesses(ctx, t, bin, run)
	client, err := rest.HTTPClientFor(running.Config)
	if err != nil {
		t.Fatal(err)
	}
	return compared{running.Config.Host, client, filepath.Join(running.Dir, auditLog)}
}

func startProcesses(ctx context.Context, t *testing.T, bin string,
	run func(context.Context, *peers.Server) error) *peers.Server {
	t.Helper()
	// Not t.TempDir: a socket's path must be short.
	dir, err := os.MkdirTemp("", "differential-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	running, err := peers.Start(ctx, bin, dir, run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Stop)
	return running
}

// A request is one of the tables', by an administrator unless as says who else.
type request struct {
	verb, path string
	// kind is that of the body: json, or the type of a patch.
	kind string
	body string
	as   string
	// until, where a cache has to show something first, is what the answer has then: the request,
	// a dry run, is sent until it does.
	until string
	// id is what the audit log calls the request.
	id string
	// differs is what docs/differences.md says of it, where the answers are not alike.
	differs string
	// audits is the same of the audit log, where the answers are alike.
	audits string
}

func (r request) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s as %s: %s %s", r.verb, r.path, cmp.Or(r.as, "administrator"), r.kind,
		r.body))
}

// contentTypes are those of bodies.
var contentTypes = map[string]string{
	"":          "application/json",
	"merge":     "application/merge-patch+json",
	"strategic": "application/strategic-merge-patch+json",
	"json":      "application/json-patch+json",
	"apply":     "application/apply-patch+yaml",
}

// settleTimeout is far more than caches need.
const settleTimeout = 20 * time.Second

// settled is the answer, once the server's caches show what it needs.
func (s compared) settled(ctx context.Context, t *testing.T, r request) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		answer := s.answer(t.Context(), t, r)
		if strings.Contains(answer, r.until) {
			return answer
		}
		select {
		case <-time.After(peers.PollInterval):
		case <-ctx.Done():
			t.Errorf("%s: the answer never has %q:\n%s", r, r.until, answer)
			return answer
		}
	}
}

// answer is what the server says, with all that differs from run to run replaced.
func (s compared) answer(ctx context.Context, t *testing.T, r request) string {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(r.body))
	if err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	if r.body == "" {
		body = nil
	}
	asked, err := http.NewRequestWithContext(ctx, r.verb, s.url+r.path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	asked.Header.Set("Content-Type", contentTypes[r.kind])
	asked.Header.Set("Audit-ID", r.id)
	if r.as != "" {
		name, groups, _ := strings.Cut(r.as, " ")
		asked.Header.Set("Impersonate-User", name)
		for _, group := range strings.Fields(groups) {
			asked.Header.Add("Impersonate-Group", group)
		}
	}
	response, err := s.client.Do(asked)
	if err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	var object any
	if err := json.Unmarshal(content, &object); err != nil {
		object = string(content)
	}
	normalized, err := json.MarshalIndent(normalize(object), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(response.StatusCode, " ", response.Header.Values("Warning"), "\n", string(normalized))
}

// What differs from run to run, in any field.
var (
	times     = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	uids      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	volumes   = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)
	generated = regexp.MustCompile(`generated-[a-z0-9]{5}`)
	addresses = regexp.MustCompile(`10\.(9[6-9]|10\d|11[01])\.\d+\.\d+`)
	hashes    = regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`)
	schemes   = regexp.MustCompile(` in scheme \\*"[^"]*"`)
	revisions = regexp.MustCompile(`resourceVersion\\*":\\*"\d+`)
)

func normalize(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			switch key {
			case "resourceVersion", "nodePort":
				value[key] = "…"
			case "manager":
				if value[key] = field; field == "gatehouse" { // the server itself
					value[key] = peers.KubeAPIServer
				}
			case "managedFields":
				value[key] = normalize(field)
				// Their order is that of their times, which are in seconds.
				if entries, ok := field.([]any); ok {
					slices.SortFunc(entries,
						func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
				}
			default:
				value[key] = normalize(field)
				if strings.HasPrefix(key, "podpreset.admission.kubernetes.io/") { // its resourceVersion
					value[key] = "…"
				}
			}
		}
	case []any:
		for i := range value {
			value[i] = normalize(value[i])
		}
	case string:
		for name, pattern := range map[string]*regexp.Regexp{"time": times, "uid": uids, "kube-api-access-…": volumes,
			"generated-…": generated, "address": addresses, "revision": revisions,
			"": schemes, "hash": hashes} {
			value = pattern.ReplaceAllString(value, name)
		}
		return value
	}
	return value
}
