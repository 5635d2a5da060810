// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

// What no plugin reads isn't kept, and a second look at an object changes nothing.
func TestLean(t *testing.T) {
	for name, test := range map[string]struct{ object, want string }{
		"a pod": {`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u",
			"resourceVersion":"5","labels":{"a":"b"},"annotations":{"kubernetes.io/config.mirror":"m","x":"y"},
			"managedFields":[{"manager":"m"}]},"spec":{"nodeName":"one","serviceAccountName":"sa",
			"containers":[{"name":"c","image":"i","env":[{"name":"PASSWORD","value":"secret"}]}],
			"volumes":[{"name":"conf","configMap":{"name":"c"}},{"name":"dir","emptyDir":{}},
			{"name":"claim","persistentVolumeClaim":{"claimName":"p"}},
			{"name":"driver","csi":{"driver":"d"}},
			{"name":"none","projected":{"sources":[{"configMap":{"name":"c"}}]}},
			{"name":"token","projected":{"defaultMode":420,"sources":[{"configMap":{"name":"ca"}},
			{"serviceAccountToken":{"audience":"vault","path":"t"}}]}}]},"status":{"phase":"Running"}}`,
			`{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"5",` +
				`"annotations":{"kubernetes.io/config.mirror":"m"}},"spec":{"volumes":[{"name":"claim",` +
				`"persistentVolumeClaim":{"claimName":"p"}},{"name":"driver","csi":{"driver":"d"}},{"name":"token",` +
				`"projected":{"sources":[{"serviceAccountToken":{"audience":"vault","path":""}}]}}],` +
				`"containers":null,"serviceAccountName":"sa","nodeName":"one"},"status":{}}`},
		"a pod with its token alone": {`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"nodeName":
			"one","containers":[],"volumes":[{"name":"kube-api-access-x","projected":{"sources":[
			{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"ca"}}]}}]}}`,
			`{"metadata":{"name":"a"},"spec":{"volumes":[{"name":"","projected":{"sources":[{"serviceAccountToken":` +
				`{"path":""}}]}}],"containers":null,"nodeName":"one"},"status":{}}`},
		"a node": {`{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"u","labels":{"a":"b"},
			"annotations":{"x":"y"}},"status":{"allocatable":{"cpu":"4"},"declaredFeatures":["F"],
			"images":[{"names":["i"]}],"conditions":[{"type":"Ready"}]}}`,
			`{"metadata":{"name":"a","uid":"u","labels":{"a":"b"}},"spec":{},"status":{"allocatable":{"cpu":"4"},` +
				`"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"",` +
				`"bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"",` +
				`"kubeProxyVersion":"","operatingSystem":"","architecture":""},"declaredFeatures":["F"]}}`},
		"a namespace": {`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a","labels":{"a":"b"},
			"annotations":{"scheduler.alpha.kubernetes.io/node-selector":"a=b",
			"kubectl.kubernetes.io/last-applied-configuration":"{}"},"managedFields":[{"manager":"m"}]}}`,
			`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a","labels":{"a":"b"},"annotations":` +
				`{"scheduler.alpha.kubernetes.io/node-selector":"a=b"}},"spec":{},"status":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var object any
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(test.object), nil, nil)
			for range 2 {
				if err == nil {
					object, err = dropUnread(object)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(object)
			if err != nil || string(got) != test.want {
				t.Errorf("%v, got\n%s\nwant\n%s", err, got, test.want)
			}
		})
	}
	// What a watch missed has no object.
	gone := cache.DeletedFinalStateUnknown{Key: "a", Obj: &corev1.Pod{}}
	if got, err := dropUnread(gone); err != nil || got != any(gone) {
		t.Errorf("got %v, %v", got, err)
	}
}
