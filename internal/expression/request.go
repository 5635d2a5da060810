// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"github.com/google/cel-go/common/types"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// celRequest returns the request as JSON, without the parts that expressions read as variables of
// their own. It is written out because the generic converter takes more than twice as long, and
// most conditions read the request.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/cel/condition.go#CreateAdmissionRequest 894a711e
func celRequest(request *admissionv1.AdmissionRequest) any {
	content := map[string]any{
		"uid":       "",
		"kind":      celKind(request.Kind),
		"resource":  celResource(request.Resource),
		"operation": string(request.Operation),
		"userInfo":  celUser(&request.UserInfo),
		"object":    nil,
		"oldObject": nil,
		"options":   nil,
	}
	setUnlessEmpty(content, "subResource", request.SubResource)
	setUnlessEmpty(content, "requestSubResource", request.RequestSubResource)
	setUnlessEmpty(content, "name", request.Name)
	setUnlessEmpty(content, "namespace", request.Namespace)
	if request.RequestKind != nil {
		content["requestKind"] = celKind(*request.RequestKind)
	}
	if request.RequestResource != nil {
		content["requestResource"] = celResource(*request.RequestResource)
	}
	if request.DryRun != nil {
		content["dryRun"] = *request.DryRun
	}
	if request.Options.Object != nil && request.Options.Raw == nil {
		options := celMap(requestVariable, request.Options.Object)
		if _, failed := options.(*types.Err); failed {
			return options
		}
		content["options"] = options
	} else if request.Options.Raw != nil {
		var options any
		if err := utiljson.Unmarshal(request.Options.Raw, &options); err != nil {
			return conversionError(requestVariable, err)
		}
		content["options"] = options
	}
	return content
}

func celKind(k metav1.GroupVersionKind) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

func celResource(r metav1.GroupVersionResource) map[string]any {
	return map[string]any{"group": r.Group, "version": r.Version, "resource": r.Resource}
}

func celUser(u *authenticationv1.UserInfo) map[string]any {
	content := map[string]any{}
	setUnlessEmpty(content, "username", u.Username)
	setUnlessEmpty(content, "uid", u.UID)
	if len(u.Groups) > 0 {
		content["groups"] = celStrings(u.Groups)
	}
	if len(u.Extra) > 0 {
		extra := make(map[string]any, len(u.Extra))
		for key, values := range u.Extra {
			extra[key] = celStrings(values)
		}
		content["extra"] = extra
	}
	return content
}

func celStrings(values []string) any {
	if values == nil {
		return nil
	}
	list := make([]any, len(values))
	for i, value := range values {
		list[i] = value
	}
	return list
}

func setUnlessEmpty(content map[string]any, key, value string) {
	if value != "" {
		content[key] = value
	}
}

// resourceAttributes is the resource that authorizer.requestResource checks: that of the API
// request.
type resourceAttributes struct{ request *admissionv1.AdmissionRequest }

func (r resourceAttributes) GetName() string      { return r.request.Name }
func (r resourceAttributes) GetNamespace() string { return r.request.Namespace }

func (r resourceAttributes) GetResource() schema.GroupVersionResource {
	resource := r.request.Resource
	if r.request.RequestResource != nil {
		resource = *r.request.RequestResource
	}
	return schema.GroupVersionResource(resource)
}

func (r resourceAttributes) GetSubresource() string {
	if r.request.RequestResource != nil {
		return r.request.RequestSubResource
	}
	return r.request.SubResource
}
