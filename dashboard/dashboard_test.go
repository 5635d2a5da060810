// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// fakeAPI is as much of an API server as the dashboard asks for: it lists and watches decisions,
// and can be made to refuse, and to hang up.
type fakeAPI struct {
	*httptest.Server

	mu       sync.Mutex
	items    []v1alpha1.Decision
	code     int  // with which everything is answered, unless 0
	lacks    bool // the API group, of which it tells everybody
	watchers map[chan watchEvent]struct{}
	asked    []string
}

type watchEvent struct {
	Type   string             `json:"type"`
	Object *v1alpha1.Decision `json:"object"`
}

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{watchers: map[chan watchEvent]struct{}{}}
	f.Server = httptest.NewTLSServer(f)
	t.Cleanup(func() {
		f.hangUp()
		f.Close()
	})
	return f
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	f.mu.Lock()
	f.asked = append(f.asked, r.URL.Path)
	code := f.code
	if f.lacks && !strings.HasSuffix(r.URL.Path, "/decisions") {
		code = http.StatusNotFound
	}
	list := v1alpha1.DecisionList{ListMeta: v1.ListMeta{ResourceVersion: "1"}, Items: slices.Clone(f.items)}
	events := make(chan watchEvent, 100)
	watches := r.URL.Query().Get("watch") != ""
	if code == 0 && watches {
		f.watchers[events] = struct{}{}
	}
	f.mu.Unlock()
	switch {
	case code != 0:
		refuseAs(w, code, map[int]v1.StatusReason{403: v1.StatusReasonForbidden,
			404: v1.StatusReasonNotFound}[code])
	case watches:
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case <-r.Context().Done(): // of a watch that began after hangUp, too
				return
			case e, ok := <-events:
				if !ok {
					return
				}
				_ = json.NewEncoder(w).Encode(e)
				_ = http.NewResponseController(w).Flush()
			}
		}
	case strings.HasSuffix(r.URL.Path, "/decisions"):
		list.Kind, list.APIVersion = "DecisionList", v1alpha1.SchemeGroupVersion.String()
		_ = json.NewEncoder(w).Encode(list)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func refuseAs(w http.ResponseWriter, code int, reason v1.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v1.Status{TypeMeta: v1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: v1.StatusFailure, Code: int32(code), Reason: reason, Message: "no, says the server"})
}

func (f *fakeAPI) config() *rest.Config {
	return &rest.Config{Host: f.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// tell sends an event to all watches, of which there must be one.
func (f *fakeAPI) tell(t *testing.T, kind string, d *v1alpha1.Decision) {
	t.Helper()
	d.Kind, d.APIVersion = "Decision", v1alpha1.SchemeGroupVersion.String()
	eventually(t, "a watch", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for events := range f.watchers {
			events <- watchEvent{kind, d}
		}
		return len(f.watchers) > 0
	})
}

// hangUp ends all watches.
func (f *fakeAPI) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for events := range f.watchers {
		close(events)
	}
	clear(f.watchers)
}

func (f *fakeAPI) set(code int, items ...v1alpha1.Decision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.code, f.items = code, items
}

func made(name string, at int) *v1alpha1.Decision {
	return &v1alpha1.Decision{
		ObjectMeta: v1.ObjectMeta{Name: name, Namespace: "shop", ResourceVersion: fmt.Sprint(at)},
		Time:       v1.NewMicroTime(time.Unix(int64(at), 0)), Verdict: v1alpha1.Admitted, Code: 201,
		Request: v1alpha1.Request{Operation: "CREATE", Version: "v1", Resource: "pods", Namespace: "shop", Name: name,
			User: v1alpha1.User{Username: "alice"}},
		Steps: []v1alpha1.Step{{Plugin: "One", Phase: "Mutate", Verdict: v1alpha1.Admitted,
			Patch: []v1alpha1.PatchOperation{{Op: "remove", Path: "/spec/x"}}}},
	}
}

// start is a dashboard over the fake, and a client that has its cookie.
func start(t *testing.T, f *fakeAPI, namespace string) (*Dashboard, *http.Client) {
	t.Helper()
	return startOver(t, f.config(), namespace)
}

func startOver(t *testing.T, config *rest.Config, namespace string) (*Dashboard, *http.Client) {
	t.Helper()
	d, err := New(config, namespace, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	run(t, d)
	return d, &http.Client{Transport: newSession(d)}
}

// run runs a dashboard until the test ends.
func run(t *testing.T, d *Dashboard) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the dashboard ended with %v", err)
		}
	})
}

// session adds the cookie of a session to requests.
type session string

func newSession(d *Dashboard) session {
	id, _ := d.door.begin()
	return session(id)
}

func (s session) RoundTrip(r *http.Request) (*http.Response, error) {
	r.AddCookie(&http.Cookie{Name: cookieName, Value: string(s)})
	return http.DefaultTransport.RoundTrip(r)
}

// base is where the page is, for those who are let in.
func (d *Dashboard) base() string { return "http://" + d.door.host + d.door.path }

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waiting for %s", what)
		}
	}
}

// reading is the stream of events of one page.
type reading struct {
	t     *testing.T
	lines *bufio.Scanner
	read  [][2]string // events that nobody asked for yet: name, data
	end   func()
}

func (d *Dashboard) read(t *testing.T, client *http.Client) *reading {
	t.Helper()
	response, err := client.Get(d.base() + "events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("got %d %s: %s", response.StatusCode, kind, body)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<26)
	return &reading{t: t, lines: lines, end: func() { response.Body.Close() }}
}

// next is the first event of that name that has the text, of those that nobody asked for yet.
func (r *reading) next(name, text string) string {
	r.t.Helper()
	for i, e := range r.read {
		if e[0] == name && strings.Contains(e[1], text) {
			r.read = slices.Delete(r.read, i, i+1)
			return e[1]
		}
	}
	timeout := time.AfterFunc(30*time.Second, r.end)
	defer timeout.Stop()
	current := ""
	for r.lines.Scan() {
		if event, ok := strings.CutPrefix(r.lines.Text(), "event: "); ok {
			current = event
		}
		data, ok := strings.CutPrefix(r.lines.Text(), "data: ")
		switch {
		case ok && current == name && strings.Contains(data, text):
			return data
		case ok:
			r.read = append(r.read, [2]string{current, data})
		}
	}
	r.t.Fatalf("the stream ended before %s with %s: %v; there was %q", name, text, r.lines.Err(), r.read)
	return ""
}

func TestEvents(t *testing.T) {
	f := newFakeAPI(t)
	f.set(0, *made("first", 1), *made("second", 2))
	d, client := start(t, f, "")
	eventually(t, "the list", func() bool { return d.mirror.get("shop/first") != nil })
	page := d.read(t, client)
	page.next("state", `"live"`)
	var rows []row
	if err := json.Unmarshal([]byte(page.next("rows", "shop/first")), &rows); err != nil || len(rows) != 2 ||
		rows[0].ID != "shop/second" || rows[0].At != 2e6 || rows[0].User != "alice" || rows[0].Steps[0].Changes != 1 {
		t.Fatalf("got %+v, %v, want the newest first", rows, err)
	}
	f.tell(t, "ADDED", made("third", 3))
	page.next("added", "shop/third")
	f.tell(t, "DELETED", made("first", 1))
	if got := page.next("gone", ""); got != `["shop/first"]` {
		t.Errorf("gone is %s", got)
	}

	var whole explained
	response, err := client.Get(d.base() + "decision/shop/third")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&whole); err != nil ||
		whole.Decision.Kind != "Decision" || whole.Decision.Steps[0].Patch[0].Path != "/spec/x" {
		t.Errorf("got %+v, %v", whole, err)
	}
	if gone, err := client.Get(d.base() + "decision/shop/first"); err != nil || gone.StatusCode != 404 {
		t.Errorf("a decision that is gone: %v, %v", gone, err)
	}
}

// What happens while the server can't be reached is said, and passes.
func TestReconnects(t *testing.T) {
	f := newFakeAPI(t)
	f.set(0, *made("first", 1))
	d, client := start(t, f, "")
	eventually(t, "the list", func() bool { return d.mirror.get("shop/first") != nil })
	page := d.read(t, client)
	page.next("rows", "shop/first")
	f.set(http.StatusServiceUnavailable)
	f.hangUp()
	if said := page.next("state", `"waiting"`); !strings.Contains(said, "no, says the server") {
		t.Errorf("says %s", said)
	}
	f.set(0, *made("later", 2))
	page.next("state", `"live"`)
	f.tell(t, "ADDED", made("more", 3))
	page.next("added", "shop/more")
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range f.asked {
		if path != "/apis/decisions.gatehouse.dev/v1alpha1/decisions" {
			t.Errorf("asks for %s", path)
		}
	}
}

func TestWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		code            int
		namespace, want string
		lacks           bool
	}{
		"no right": {403, "", "kubectl create clusterrolebinding NAME " +
			"--clusterrole=gatehouse:decisions-viewer --user=USER", false},
		"no right in a namespace": {403, "shop", "kubectl create rolebinding NAME --namespace=shop " +
			"--clusterrole=gatehouse:decisions-viewer --user=USER", false},
		"no decisions":                       {404, "", "--decisions=false", true},
		"no decisions, and no right to them": {403, "", "--decisions=false", true},
		"no such user":                       {401, "", "doesn't know who you are", false},
		"out of breath":                      {503, "", "can't be reached", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t)
			f.set(test.code)
			f.lacks = test.lacks
			d, client := start(t, f, test.namespace)
			var said state
			if err := json.Unmarshal([]byte(d.read(t, client).next("state", `"waiting"`)), &said); err != nil ||
				!strings.Contains(said.Message, test.want) {
				t.Errorf("says %q, %v, want %q", said.Message, err, test.want)
			}
		})
	}
}
