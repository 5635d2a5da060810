// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"encoding/json"
	"hash/fnv"
	"net/http"
	"path"
	"strings"
)

// answerReview answers the AdmissionReviews of webhooks and the ImageReviews of the image policy, by the
// last part of the path. An answer depends on nothing but the request, so both servers get the same.
func answerReview(w http.ResponseWriter, r *http.Request) {
	var review map[string]any
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if path.Base(r.URL.Path) == "images" {
		review["status"] = judgeImages(review["spec"])
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
		return
	}
	request, _ := review["request"].(map[string]any)
	name, _ := request["name"].(string)
	if prefix, ok := field(request["object"], "metadata", "generateName").(string); ok {
		name = prefix // the rest is random
	}
	response := map[string]any{"uid": request["uid"], "allowed": true}
	patch := func(operations string) {
		if request["object"] != nil {
			response["patchType"], response["patch"] = "JSONPatch", []byte(operations)
		}
	}
	switch path.Base(r.URL.Path) {
	case "fail":
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	case "settled", "mutating-settled":
		response["warnings"] = []any{"webhook " + path.Base(r.URL.Path)}
	case "warn":
		response["warnings"] = []any{"careful with " + name}
		response["auditAnnotations"] = map[string]any{"operation": request["operation"],
			"resource": field(request["resource"], "resource")}
	case "deny-some":
		hash := fnv.New32()
		_, _ = hash.Write([]byte(path.Ext("." + name)))
		if hash.Sum32()%3 == 0 {
			response["allowed"] = false
			response["status"] = map[string]any{"message": "refused", "code": 400 + hash.Sum32()%5}
		}
	case "label":
		if labels, ok := field(request["object"], "metadata", "labels").(map[string]any); ok && labels != nil {
			patch(`[{"op": "add", "path": "/metadata/labels/hooked", "value": "yes"}]`)
		} else {
			patch(`[{"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}]`)
		}
	case "image":
		if containers, ok := field(request["object"], "spec", "containers").([]any); ok && len(containers) > 0 {
			patch(`[{"op": "add", "path": "/spec/containers/0/image", "value": "hooked"}]`)
		}
	case "odd":
		patch(`[{"op": "add", "path": "/metadata/unknown", "value": {"a": 1}}]`)
	}
	review["response"] = response
	delete(review, "request")
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// judgeImages returns the status of an ImageReview: images with a tag are refused, and pods without
// images.
func judgeImages(spec any) map[string]any {
	containers, _ := field(spec, "containers").([]any)
	for _, c := range containers {
		if image, _ := field(c, "image").(string); strings.Contains(image, ":") {
			return map[string]any{"allowed": false, "reason": "the tag of " + image,
				"auditAnnotations": map[string]any{"tagged": image}}
		}
	}
	return map[string]any{"allowed": len(containers) > 0, "auditAnnotations": map[string]any{"tagged": "none"}}
}
