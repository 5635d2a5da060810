// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"encoding/json"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
)

// setOptions sets the operation's options as the server reads them: from the query, and of a
// deletion from its body if it has one.
// Source: k8s.io/apiserver/pkg/endpoints/handlers/delete.go#DeleteResource 8866737b
// Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go#patchToCreateOptions e0d2edff
// Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go#patchToUpdateOptions 15690972
// Source: k8s.io/apiserver/pkg/endpoints/handlers/update.go#updateToCreateOptions 8f19c656
func (rec *Record) setOptions(q *Request) {
	query := queryOf(q.URI)
	decode := func(into runtime.Object) {
		if metainternalversion.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, into) != nil {
			q.unjudge(Unparseable)
		}
	}
	switch q.Operation {
	case admission.Create:
		options := &metav1.CreateOptions{}
		decode(options)
		setKind(options, "CreateOptions")
		q.Options = options
	case admission.Update:
		options := &metav1.UpdateOptions{}
		decode(options)
		setKind(options, "UpdateOptions")
		q.Options = options
	case admission.Delete:
		options := &metav1.DeleteOptions{}
		if body := rec.event.request; isNull(body) {
			decode(options)
		} else if json.Unmarshal(body, options) != nil {
			q.unjudge(Unparseable)
		}
		setKind(options, "DeleteOptions")
		q.Options = options
	}
}

func setKind(options runtime.Object, kind string) {
	options.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(kind))
}

// connectOptions returns the object that a connection has: options in the URI.
// Source: k8s.io/apiserver/pkg/endpoints/handlers/get.go#getRequestOptions 9d9fa32f
func connectOptions(e *event) ([]byte, Reason) {
	uri := text(e.uri)
	parsed, err := url.ParseRequestURI(uri)
	if err != nil {
		return nil, Unparseable
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return nil, Unparseable
	}
	kind := connections[e.resource+"/"+e.subresource]
	if e.subresource == "proxy" {
		query["path"] = []string{proxyPath(parsed.Path, e)}
	}
	options, ok := optionsOfQuery(kind, query)
	if !ok {
		return nil, Unparseable
	}
	options.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	data, err := json.Marshal(options)
	if err != nil {
		return nil, Unparseable
	}
	return data, ""
}

// optionsOfQuery reads the options of a kind. client-go's scheme can only write them.
// Source: k8s.io/kubernetes/pkg/apis/core/v1/zz_generated.conversion.go#autoConvert_url_Values_To_v1_PodExecOptions 22d4c976
// Source: k8s.io/kubernetes/pkg/apis/core/v1/zz_generated.conversion.go#autoConvert_url_Values_To_v1_PodAttachOptions eb2e2bce
// Source: k8s.io/apimachinery/pkg/apis/meta/v1/conversion.go#Convert_Slice_string_To_Slice_int32 ff97646b
func optionsOfQuery(kind string, query url.Values) (runtime.Object, bool) {
	switch kind {
	case "PodExecOptions":
		return &corev1.PodExecOptions{Stdin: isSet(query, "stdin"), Stdout: isSet(query, "stdout"),
			Stderr: isSet(query, "stderr"), TTY: isSet(query, "tty"), Container: query.Get("container"),
			Command: query["command"]}, true
	case "PodAttachOptions":
		return &corev1.PodAttachOptions{Stdin: isSet(query, "stdin"), Stdout: isSet(query, "stdout"),
			Stderr: isSet(query, "stderr"), TTY: isSet(query, "tty"), Container: query.Get("container")}, true
	case "PodPortForwardOptions":
		options := &corev1.PodPortForwardOptions{}
		err := metav1.Convert_Slice_string_To_Slice_int32(ptr.To(query["ports"]), &options.Ports, nil)
		return options, err == nil
	case "PodProxyOptions":
		return &corev1.PodProxyOptions{Path: query.Get("path")}, true
	case "ServiceProxyOptions":
		return &corev1.ServiceProxyOptions{Path: query.Get("path")}, true
	case "NodeProxyOptions":
		return &corev1.NodeProxyOptions{Path: query.Get("path")}, true
	}
	return nil, false
}

// isSet reports whether a parameter is there and doesn't say no.
// Source: k8s.io/apimachinery/pkg/runtime/conversion.go#Convert_Slice_string_To_bool 97a502f5
func isSet(query url.Values, name string) bool {
	values := query[name]
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// proxyPath returns the path behind /proxy, with the slashes that the server has it with.
func proxyPath(path string, e *event) string {
	// /api/v1/namespaces/NAMESPACE/pods/NAME/proxy/PATH, or /api/v1/nodes/NAME/proxy/PATH
	parts := strings.Split(strings.Trim(path, "/"), "/")
	behind := 5
	if e.resource != "nodes" {
		behind = 7
	}
	rest := ""
	if len(parts) > behind {
		rest = "/" + strings.Join(parts[behind:], "/")
	}
	if strings.HasSuffix(path, "/") && !strings.HasSuffix(rest, "/") {
		rest += "/"
	}
	return rest
}
