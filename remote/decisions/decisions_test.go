// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
)

// newHandler returns a handler of some decisions, and the API server that it asks: it knows the token
// alice, and lets her list decisions in the namespaces.
func newHandler(t *testing.T, namespaces ...string) (*handler, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: review.Spec.Token == "alice",
			User: authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: []string{"g"},
				Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}}
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		asked := review.Spec.ResourceAttributes
		for _, namespace := range namespaces {
			review.Status.Allowed = review.Status.Allowed || asked.Namespace == namespace
		}
		if review.Spec.User != "alice" || review.Spec.UID != "1" || len(review.Spec.Groups) != 1 || review.Spec.Extra["k"][0] != "v" ||
			asked.Group != "decisions.gatehouse.dev" || asked.Resource != "decisions" || asked.Verb != "list" {
			t.Errorf("asked %+v about %+v", review.Spec, asked)
		}
		return true, review, nil
	})
	store := decision.NewStore("replica", 1000, 1<<20)
	recorder := decision.NewRecorder(store, decision.ValuesHidden)
	refuse := func(namespace, name string) {
		ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "bob"})
		recorder.Record(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "configmaps", APIVersion: "v1",
			Namespace: namespace, Name: name}, "", func(context.Context) (int, *metav1.Status) {
			return http.StatusForbidden, &metav1.Status{Message: "no", Reason: metav1.StatusReasonForbidden}
		})
	}
	for range maxItems + 1 {
		refuse("shop", "a")
	}
	refuse("shop", "b")
	refuse("default", "c")
	refuse("", "d")
	return &handler{store: store, client: client}, client
}

func get(h *handler, query, token string) (int, string, v1alpha1.DecisionList) {
	r := httptest.NewRequest(http.MethodGet, Path+query, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var list v1alpha1.DecisionList
	_ = json.Unmarshal(w.Body.Bytes(), &list) // it may be a Status
	return w.Code, w.Body.String(), list
}

// A user sees the decisions of the namespaces in which she may list them, page by page.
func TestDecisionsOfANamespace(t *testing.T) {
	h, _ := newHandler(t, "shop", "default")
	code, body, list := get(h, "?namespace=shop", "alice")
	if code != http.StatusOK || len(list.Items) != maxItems || list.Continue == "" || list.Kind != "DecisionList" {
		t.Fatalf("code %d, %d items, continue %q: %s", code, len(list.Items), list.Continue, body)
	}
	if _, _, rest := get(h, "?namespace=shop&limit=500&continue="+list.Continue, "alice"); len(rest.Items) != 2 {
		t.Errorf("the second page has %d items", len(rest.Items))
	}
	if _, _, list = get(h, "?namespace=shop&limit=1&fieldSelector=request.name%3Db", "alice"); len(list.Items) != 1 ||
		list.Items[0].Request.Name != "b" || list.Items[0].Labels[v1alpha1.ServerLabel] != "replica" {
		t.Errorf("of b there is %+v", list.Items)
	}
	if _, _, list = get(h, "?namespace=default", "alice"); len(list.Items) != 1 || list.Items[0].Request.Name != "c" {
		t.Errorf("in default there is %+v", list.Items)
	}
	everywhere, _ := newHandler(t, "", "default")
	if _, _, list = get(everywhere, "?namespace=default", "alice"); len(list.Items) != 2 {
		t.Errorf("who may list everywhere sees %+v in default", list.Items)
	}
}

// A user whose question has no room among those to the API server learns that, and not that the token is
// wrong.
func TestTooManyQuestions(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler()) // nothing is asked
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: 1e-6, Burst: 1}
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	config.RateLimiter.TryAccept()
	h, _ := newHandler(t, "shop")
	h.client = kubernetes.NewForConfigOrDie(config)
	if code, body, _ := get(h, "?namespace=shop", "alice"); code != http.StatusTooManyRequests ||
		!strings.Contains(body, "ask again later") {
		t.Errorf("code %d: %s", code, body)
	}
}

// Everybody else is told why not, and is shown nothing.
func TestRefusals(t *testing.T) {
	h, client := newHandler(t, "shop")
	for _, test := range []struct {
		query, token string
		code         int
		says         string
	}{
		{"?namespace=shop", "", 401, "a bearer token of the cluster is required"},
		{"?namespace=shop", "mallory", 401, "doesn't accept the token"},
		{"?namespace=default", "alice", 403, `User \"alice\" cannot list decisions in namespace \"default\"`},
		{"", "alice", 403, "in all namespaces"},
		{"?namespace=shop&limit=x", "alice", 400, "limit: "},
		{"?namespace=shop&limit=-1", "alice", 400, "limit: "},
		{"?namespace=shop&continue=x", "alice", 400, "continue: "},
		{"?namespace=shop&fieldSelector=colour%3Dred", "alice", 400, "fieldSelector: "},
		{"?namespace=shop&fieldSelector=a%3Db%3Dc%3D", "alice", 400, "fieldSelector: "},
	} {
		code, body, list := get(h, test.query, test.token)
		if code != test.code || !strings.Contains(body, test.says) || !strings.Contains(body, `"kind":"Status"`) ||
			len(list.Items) > 0 {
			t.Errorf("%s as %q: code %d: %s", test.query, test.token, code, body)
		}
	}
	client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("away")
	})
	if code, body, _ := get(h, "?namespace=shop", "alice"); code != 500 || !strings.Contains(body, "away") {
		t.Errorf("without an API server: code %d: %s", code, body)
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, nil)); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("a POST: code %d", w.Code)
	}
}
