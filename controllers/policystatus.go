package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	celopenapi "k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	applyv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	k8sscheme "k8s.io/client-go/kubernetes/scheme"
	listers "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/generated/openapi"

	"gatehouse.dev/internal/expression"
)

// policyStatus writes to the status of ValidatingAdmissionPolicies which of their expressions don't
// fit the kinds of their objects.
//
// Kubernetes' own controller comes with its plugin, so it can't be used. A policy's status is
// written once for each generation, with the kinds of that time.
//
// Sources: k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus, and typechecking.go in
// k8s.io/apiserver/pkg/admission/plugin/policy/validating.
type policyStatus struct {
	client   kubernetes.Interface
	policies listers.ValidatingAdmissionPolicyLister
	queue    workqueue.TypedRateLimitingInterface[string]
	types    *policyTypes
}

func policyStatuses(_ context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig(names.ValidatingAdmissionPolicyStatusController))
	if err != nil {
		return nil, err
	}
	policies := e.informers.Admissionregistration().V1().ValidatingAdmissionPolicies()
	c := &policyStatus{
		client: client, policies: policies.Lister(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: names.ValidatingAdmissionPolicyStatusController}),
		types: newPolicyTypes(&resolver.ClientDiscoveryResolver{Discovery: client.Discovery()}, newMapper(client)),
	}
	add := func(object any) {
		if policy, ok := object.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok {
			c.queue.Add(policy.Name)
		}
	}
	registration, err := policies.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, object any) { add(object) }})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		defer c.queue.ShutDown()
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			c.run(ctx)
		}
	}, nil
}

func (c *policyStatus) run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		c.queue.ShutDown()
	}()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for c.next(ctx) {
		}
	}, time.Second)
}

// next processes one policy, and returns false at the end. A queue that is shut down still hands
// out its items, maybe thousands of policies. They wait for the next controller, so that they don't
// delay the server's end.
func (c *policyStatus) next(ctx context.Context) bool {
	name, ended := c.queue.Get()
	if ended {
		return false
	}
	defer c.queue.Done(name)
	if ctx.Err() != nil {
		return false
	}
	if err := c.check(ctx, name); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Checking the types of a policy", "policy", name)
		c.queue.AddRateLimited(name)
		return true
	}
	c.queue.Forget(name)
	return true
}

func (c *policyStatus) check(ctx context.Context, name string) error {
	policy, err := c.policies.Get(name)
	if apierrors.IsNotFound(err) || err == nil && policy.Generation <= policy.Status.ObservedGeneration {
		return nil
	} else if err != nil {
		return err
	}
	checking := applyv1.TypeChecking()
	for _, w := range c.types.check(policy) {
		checking.WithExpressionWarnings(applyv1.ExpressionWarning().WithFieldRef(w.FieldRef).WithWarning(w.Warning))
	}
	status := applyv1.ValidatingAdmissionPolicy(name).WithStatus(applyv1.ValidatingAdmissionPolicyStatus().
		WithObservedGeneration(policy.Generation).WithTypeChecking(checking))
	_, err = c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().ApplyStatus(ctx, status,
		metav1.ApplyOptions{FieldManager: names.ValidatingAdmissionPolicyStatusController, Force: true})
	return err
}

// maxTypesToCheck bounds the kinds that one rule's expressions are checked with.
const maxTypesToCheck = 10

// policyTypes checks expressions with the kinds of a server.
type policyTypes struct {
	custom resolver.SchemaResolver
	mapper meta.ResettableRESTMapper
	// typed are the checkers of kinds that never change.
	typed map[typedKey]*expression.TypeChecker
}

type typedKey struct {
	object, params schema.GroupVersionKind
}

// builtInTypes returns the schemas of Kubernetes' own kinds. It takes a while, and memory that
// servers without policies don't need.
var builtInTypes = sync.OnceValue(func() resolver.SchemaResolver {
	return resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, k8sscheme.Scheme,
		apiextensionsscheme.Scheme)
})

func newPolicyTypes(custom resolver.SchemaResolver, mapper meta.ResettableRESTMapper) *policyTypes {
	return &policyTypes{custom: custom, mapper: mapper, typed: map[typedKey]*expression.TypeChecker{}}
}

// check returns what is wrong with the policy's validations.
func (t *policyTypes) check(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (
	warnings []admissionregistrationv1.ExpressionWarning) {
	var texts, fields []string
	path := field.NewPath("spec", "validations")
	for i, v := range policy.Spec.Validations {
		texts, fields = append(texts, v.Expression), append(fields, path.Index(i).Child("expression").String())
		if v.MessageExpression != "" {
			texts = append(texts, v.MessageExpression)
			fields = append(fields, path.Index(i).Child("messageExpression").String())
		}
	}
	messages := make([][]string, len(texts))
	params := paramsOf(policy)
	kinds, _ := t.kinds(policy)
	for _, kind := range kinds {
		typed, err := t.typedFor(kind, params)
		if err != nil {
			if !errors.Is(err, resolver.ErrSchemaNotFound) {
				utilruntime.HandleError(fmt.Errorf("types of policy %q: %w", policy.Name, err))
			}
			continue
		}
		for i, err := range typed.Check(policy.Spec.Variables, texts...) {
			if err != nil {
				messages[i] = append(messages[i], fmt.Sprintf("%v: %v\n", kind, err))
			}
		}
	}
	for i, texts := range messages {
		if len(texts) > 0 {
			warnings = append(warnings, admissionregistrationv1.ExpressionWarning{FieldRef: fields[i],
				Warning: strings.Join(texts, "\n")})
		}
	}
	return warnings
}

func paramsOf(policy *admissionregistrationv1.ValidatingAdmissionPolicy) schema.GroupVersionKind {
	if policy.Spec.ParamKind == nil {
		return schema.GroupVersionKind{}
	}
	version, err := schema.ParseGroupVersion(policy.Spec.ParamKind.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}
	}
	return version.WithKind(policy.Spec.ParamKind.Kind)
}

// typedFor returns the checker of expressions on a kind. Params of an unknown kind may have any
// type.
func (t *policyTypes) typedFor(kind, params schema.GroupVersionKind) (*expression.TypeChecker, error) {
	key := typedKey{kind, params}
	if typed := t.typed[key]; typed != nil {
		return typed, nil
	}
	object, fixed, err := t.typeOf(kind)
	if err != nil {
		return nil, err
	}
	var paramsType *apiservercel.DeclType
	if !params.Empty() {
		var known bool
		if paramsType, known, err = t.typeOf(params); err != nil {
			paramsType = nil
		}
		fixed = fixed && known
	}
	typed, err := expression.NewTypeChecker(object, paramsType, !params.Empty())
	if err == nil && fixed {
		t.typed[key] = typed
	}
	return typed, err
}

// typeOf returns the type of a kind's objects, and reports whether it never changes.
func (t *policyTypes) typeOf(kind schema.GroupVersionKind) (declared *apiservercel.DeclType, fixed bool, err error) {
	stated, fixed, err := t.schemaOf(kind)
	if err != nil {
		return nil, false, err
	}
	if declared = common.SchemaDeclType(&celopenapi.Schema{Schema: stated}, true); declared != nil {
		declared = declared.MaybeAssignTypeName(fmt.Sprintf("%s%d", kind.Kind, time.Now().Nanosecond()))
	}
	return declared, fixed, nil
}

// schemaOf returns the schema of a kind's objects, and reports whether it never changes.
func (t *policyTypes) schemaOf(kind schema.GroupVersionKind) (stated *spec.Schema, fixed bool, err error) {
	stated, err = builtInTypes().ResolveSchema(kind)
	fixed = err == nil
	if errors.Is(err, resolver.ErrSchemaNotFound) {
		stated, err = t.custom.ResolveSchema(kind)
	}
	return stated, fixed, err
}

// kinds returns the kinds that the policy's rules name, in order, and reports whether these are all
// of the policy's kinds: a rule with a wildcard or a subresource may have more.
func (t *policyTypes) kinds(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (
	kinds []schema.GroupVersionKind, all bool) {
	if policy.Spec.MatchConstraints == nil {
		return nil, false
	}
	found := map[schema.GroupVersionKind]bool{}
	refreshed := false // once a policy, as the mapper may not know a new kind
	ask := func(resource schema.GroupVersionResource) []schema.GroupVersionKind {
		kinds, err := t.mapper.KindsFor(resource)
		if err != nil && !refreshed {
			refreshed = true
			t.mapper.Reset()
			kinds, _ = t.mapper.KindsFor(resource)
		}
		return kinds
	}
	all = true
	for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
		whole, more := t.kindsOf(&rule.Rule, ask, found)
		if all = all && whole; !more {
			break
		}
	}
	for kind := range found {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int {
		return slices.Compare([]string{a.Group, a.Version, a.Kind}, []string{b.Group, b.Version, b.Kind})
	})
	return kinds, all
}

// sameKindSubresources are the subresources whose objects have the kind of their resource.
var sameKindSubresources = []string{"status", "ephemeralcontainers", "resize"}

// kindsOf adds a rule's kinds to found. It reports whether these are all of the rule's kinds. more
// is false if there are too many.
func (t *policyTypes) kindsOf(rule *admissionregistrationv1.Rule,
	ask func(schema.GroupVersionResource) []schema.GroupVersionKind, found map[schema.GroupVersionKind]bool) (
	whole, more bool) {
	wild := func(name string) bool { return strings.Contains(name, "*") }
	if slices.ContainsFunc(rule.APIGroups, wild) || slices.ContainsFunc(rule.APIVersions, wild) {
		return false, true
	}
	whole = true
	known := map[string]bool{} // resources, as a rule for several groups names some that one doesn't have
	count := 0
	for _, group := range slices.Sorted(slices.Values(rule.APIGroups)) {
		for _, version := range slices.Sorted(slices.Values(rule.APIVersions)) {
			for _, resource := range slices.Sorted(slices.Values(rule.Resources)) {
				if strings.ContainsAny(resource, "*/") {
					_, subresource, _ := strings.Cut(resource, "/")
					whole = whole && slices.Contains(sameKindSubresources, subresource)
					continue
				}
				known[resource] = known[resource]
				for _, kind := range ask(schema.GroupVersionResource{Group: group, Version: version,
					Resource: resource}) {
					if kind.Empty() {
						continue
					}
					found[kind], known[resource] = true, true
					if count++; count == maxTypesToCheck {
						return false, false
					}
				}
			}
		}
	}
	for _, hasKind := range known {
		whole = whole && hasKind
	}
	return whole, true
}
