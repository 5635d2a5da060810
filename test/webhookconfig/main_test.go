// Package webhookconfig_test is about the configurations of webhooks themselves: their old version, their limits, and those that
// come from files. What webhooks do is tested in test/webhooks, and what the API says to single fields in
// test/requests/table.
package webhookconfig_test

import (
	"encoding/json"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
)

// deadline bounds every wait for something that the server does in the background, pollInterval is how often it is asked.
const (
	deadline     = 20 * time.Second
	pollInterval = 10 * time.Millisecond
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// withRuntimeConfig is --runtime-config.
func withRuntimeConfig(config map[string]string) gatehousetest.Option {
	return func(c *server.Config) { c.API.APIEnablement.RuntimeConfig = config }
}

// clientOf returns a client of a server, without a limit to its requests.
func clientOf(config *rest.Config) *kubernetes.Clientset {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return kubernetes.NewForConfigOrDie(config)
}

// parse reads an object, in YAML.
func parse[O any](t testing.TB, text string) *O {
	t.Helper()
	object := new(O)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// unmatched are rules about something that isn't there.
var unmatched = []admissionregistrationv1.RuleWithOperations{{
	Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
	Rule:       admissionregistrationv1.Rule{APIGroups: []string{"none.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"things"}},
}}

// collector collects the warnings that a server sends.
type collector struct {
	mu       sync.Mutex
	warnings sets.Set[string]
}

// HandleWarningHeader implements rest.WarningHandler.
func (c *collector) HandleWarningHeader(_ int, _, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.warnings == nil {
		c.warnings = sets.New[string]()
	}
	c.warnings.Insert(text)
}

func (c *collector) seen() sets.Set[string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.warnings.Clone()
}

// mergePatch gives an object other webhooks.
func mergePatch(t testing.TB, webhooks any) []byte {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"webhooks": webhooks})
	if err != nil {
		t.Fatal(err)
	}
	return patch
}
