// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package shops

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
)

// newManager returns a manager that has the webhooks. hooks is its server of webhooks, nil for the default.
func newManager(t *testing.T, config *rest.Config, hooks ctrlwebhook.Server) ctrl.Manager {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, AddToScheme(scheme))
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, WebhookServer: hooks,
		Metrics: server.Options{BindAddress: "0"}})
	must(t, err)
	must(t, SetUpWebhooks(mgr))
	return mgr
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkWebhooks writes shops, and checks what the webhooks do with them.
func checkWebhooks(t *testing.T, config *rest.Config) {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, AddToScheme(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)

	corner := &Shop{ObjectMeta: metav1.ObjectMeta{Name: "corner", Namespace: "default"}, Spec: ShopSpec{Owner: "jane"}}
	must(t, c.Create(t.Context(), corner))
	if tables := corner.Spec.Tables; tables == nil || *tables != defaultTables {
		t.Errorf("a shop that says nothing of tables has %v, want %d", tables, defaultTables)
	}

	none := int32(0)
	empty := &Shop{ObjectMeta: metav1.ObjectMeta{Name: "empty", Namespace: "default"}, Spec: ShopSpec{Owner: "jane",
		Tables: &none}}
	checkRefused(t, c.Create(t.Context(), empty), "spec.tables is 0, and must be 1 at least")

	corner.Spec.Owner = "joe"
	checkRefused(t, c.Update(t.Context(), corner), "spec.owner is joe, and must stay jane")
}

func checkRefused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error that says: %s", err, want)
	}
}
