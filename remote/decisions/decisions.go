// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decisions serves the decisions of a replica at one path, to users of the cluster that it is
// for.
//
// A user shows a bearer token. The API server says whose it is (TokenReview), and whether that user
// may list decisions (SubjectAccessReview). Nothing of this is kept. QPS and Burst bound how often
// the API server is asked. The door bounds how many requests of an address wait for that.
//
// The package has no promise of compatibility.
package decisions

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
)

// Path is where the decisions are served.
const Path = "/decisions"

const (
	// QPS and Burst are the limits for the client of a Handler, which has no other use.
	QPS, Burst = 10, 20
	// maxItems bounds a page of a list.
	maxItems = 100
	// longestQuestion bounds how long the API server is asked about a request.
	longestQuestion = 5 * time.Second
)

var scheme = runtime.NewScheme()

func init() { utilruntime.Must(v1alpha1.AddToScheme(scheme)) }

// Handler returns the handler of Path. It answers a GET with a DecisionList. The query's parameters
// namespace (empty for all), fieldSelector, limit and continue mean what they mean in a list of an API
// server.
func Handler(store *decision.Store, client kubernetes.Interface) http.Handler {
	return &handler{store: store, client: client}
}

type handler struct {
	store  *decision.Store
	client kubernetes.Interface
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	list, err := h.list(r)
	if err != nil {
		writeError(w, err)
		return
	}
	write(w, http.StatusOK, list)
}

// list returns the decisions that the request asks for, if its user may see them.
func (h *handler) list(r *http.Request) (*v1alpha1.DecisionList, error) {
	if r.Method != http.MethodGet {
		return nil, apierrors.NewMethodNotSupported(v1alpha1.Decisions.GroupResource(), r.Method)
	}
	ctx, cancel := context.WithTimeout(r.Context(), longestQuestion)
	defer cancel()
	user, err := h.authenticate(ctx, r)
	if err != nil {
		return nil, err
	}
	want, limit, err := readQuery(r)
	if err != nil {
		return nil, err
	}
	allowed, err := h.mayList(ctx, user, want.Namespace)
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, apierrors.NewForbidden(v1alpha1.Decisions.GroupResource(), "",
			fmt.Errorf("User %q cannot list decisions %s", user.Username, place(want.Namespace)))
	}
	if want.Namespace == metav1.NamespaceDefault {
		// It has the decisions about objects without a namespace, too.
		everywhere, err := h.mayList(ctx, user, metav1.NamespaceAll)
		if err != nil {
			return nil, err
		}
		want.Namespaced = !everywhere
	}
	list, err := h.store.List(want, limit, r.URL.Query().Get("continue"))
	if err != nil {
		return nil, err
	}
	list.APIVersion, list.Kind = v1alpha1.SchemeGroupVersion.String(), "DecisionList"
	return list, nil
}

func place(namespace string) string {
	if namespace == metav1.NamespaceAll {
		return "in all namespaces"
	}
	return fmt.Sprintf("in namespace %q", namespace)
}

// authenticate returns the user whose token the request has.
func (h *handler) authenticate(ctx context.Context, r *http.Request) (*authenticationv1.UserInfo, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, apierrors.NewUnauthorized("a bearer token of the cluster is required")
	}
	review, err := h.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, internal("asking the API server whose token it is", err)
	}
	if !review.Status.Authenticated {
		return nil, apierrors.NewUnauthorized("the cluster doesn't accept the token")
	}
	return &review.Status.User, nil
}

// mayList reports whether a user may list the decisions in a namespace, empty for all.
func (h *handler) mayList(ctx context.Context, user *authenticationv1.UserInfo, namespace string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{User: user.Username, UID: user.UID, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Namespace: namespace,
			Group: v1alpha1.Decisions.Group, Version: v1alpha1.Decisions.Version, Resource: v1alpha1.Decisions.Resource}}
	if len(user.Extra) > 0 {
		spec.Extra = make(map[string]authorizationv1.ExtraValue, len(user.Extra))
		for key, values := range user.Extra {
			spec.Extra[key] = authorizationv1.ExtraValue(values)
		}
	}
	review, err := h.client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, internal("asking the API server what the user may do", err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// internal returns the error for a question that the API server didn't answer.
func internal(doing string, err error) error {
	if strings.Contains(err.Error(), "client rate limiter") {
		return apierrors.NewTooManyRequests(doing+": too many questions at a time: ask again later", 1)
	}
	klog.ErrorS(err, "Cannot serve decisions", "failed", doing)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("this replica may not: it needs the right to create tokenreviews of authentication.k8s.io and " +
			"subjectaccessreviews of authorization.k8s.io, as the ClusterRole system:auth-delegator gives it")
	}
	return apierrors.NewInternalError(fmt.Errorf("%s: %w", doing, err))
}

// readQuery reads the parameters of a list.
func readQuery(r *http.Request) (want decision.Filter, limit int64, err error) {
	query := r.URL.Query()
	want.Namespace, limit = query.Get("namespace"), maxItems
	if text := query.Get("limit"); text != "" {
		asked, err := strconv.ParseInt(text, 10, 64)
		if err != nil || asked < 0 {
			return want, 0, apierrors.NewBadRequest(fmt.Sprintf("limit: %q must be a number of 0 or more", text))
		}
		if asked > 0 {
			limit = min(asked, maxItems)
		}
	}
	if text := query.Get("fieldSelector"); text != "" {
		selector, err := fields.ParseSelector(text)
		if err == nil {
			selector, err = selector.Transform(func(field, value string) (string, string, error) {
				return scheme.ConvertFieldLabel(v1alpha1.SchemeGroupVersion.WithKind("Decision"), field, value)
			})
		}
		if err != nil {
			return want, 0, apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %v", err))
		}
		want.Fields = selector
	}
	return want, limit, nil
}

func writeError(w http.ResponseWriter, err error) {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		status = apierrors.NewInternalError(err)
	}
	shown := status.Status()
	shown.APIVersion, shown.Kind = "v1", "Status"
	if shown.Code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	write(w, int(shown.Code), &shown)
}

func write(w http.ResponseWriter, code int, object any) {
	body, err := json.Marshal(object)
	if err != nil {
		http.Error(w, "encoding the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // it fails if the client hung up
}
