// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gatehouse.dev/test/backends"
	"gatehouse.dev/test/differential/pair"
)

// podSecurityProbe is refused by PodSecurity, which is on by default.
var podSecurityProbe = request{verb: "POST", path: namespaces + dryRun, until: "must be one of", body: `{kind: Namespace,
apiVersion: v1, metadata: {name: probe, labels: {pod-security.kubernetes.io/enforce: strict}}}`}

// outsideGroups returns all plugins that can run outside, in groups that can run together.
func outsideGroups(t *testing.T) []outsideGroup {
	t.Helper()
	return []outsideGroup{
		{
			name: "Flags", enable: append([]string{"DenyExecOnPrivileged", "ResourceDefaults"}, pair.OptionalPlugins...),
			flags: gateFlags, probe: podSecurityProbe,
			requests: slices.Concat(clusterRequests, podRequests(), workloadRequests(), claimRequests(), serviceRequests(),
				certificateRequests,
				kubeletRequests, optionalPluginRequests(), namespaceRequests, eventRequests, gateRequests(t)),
		},
		{
			name: "Configured", enable: configuredPlugins, configuration: startConfiguration(t), probe: podSecurityProbe,
			requests: slices.Concat(clusterRequests, configurationRequests()), compareMore: compareEvents,
		},
		{
			name: "Own", probe: podSecurityProbe,
			enable: []string{"AlwaysAdmit", "SecurityContextDeny", "PodPreset", "InitialResources", "ResourceDefaults",
				"DenyEscalatingExec", "DenyExecOnPrivileged", "PersistentVolumeLabel"},
			configuration: ownConfiguration(t), requests: slices.Concat(clusterRequests, ownPluginRequests()),
		},
		{
			name: "AlwaysDeny", enable: []string{"AlwaysDeny"},
			probe: request{verb: "POST", path: namespaces + dryRun, until: "denying all modifications",
				body: "{kind: Namespace, apiVersion: v1, metadata: {name: probe}}"},
			requests: []request{
				create(namespaces, "{kind: Namespace, apiVersion: v1, metadata: {name: d}}"),
				patch("merge", namespaces+"/default", "metadata: {labels: {a: b}}"),
				deleteRequest(namespaces+"/default", ""),
				create("/api/v1/namespaces/default/pods/none/exec?command=a", ""), get(namespaces + "/d"),
			},
		},
	}
}

// ownConfiguration is of plugins that Kubernetes doesn't have. It starts the servers that they ask.
func ownConfiguration(t *testing.T) string {
	t.Helper()
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value := "104857600"
		if strings.Contains(r.FormValue("query"), "cpu") {
			value = "0.25"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},`+
			`"value":[1,%q]}]}}`, value)
	}))
	t.Cleanup(prometheus.Close)
	ec2 := backends.EC2(t, map[string]string{"vol-1": "us-east-1a"})
	return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: InitialResources
  configuration:
    {apiVersion: gatehouse.dev/v1alpha1, kind: InitialResourcesConfiguration, address: %s, apply: Request}
- name: PersistentVolumeLabel
  configuration:
    apiVersion: gatehouse.dev/v1alpha1
    kind: PersistentVolumeLabelConfiguration
    aws: {region: us-east-1, endpoint: %s, certificateAuthorityFile: %s, credentialsFile: %s}
`, prometheus.URL, ec2.URL, ec2.AuthorityFile, ec2.CredentialsFile)
}

// ownPluginRequests returns requests about plugins that Kubernetes doesn't have, or no longer.
func ownPluginRequests() []request {
	const presets = "/apis/settings.k8s.io/v1alpha1/namespaces/d/podpresets"
	pod := func(name, spec string) string {
		return "{kind: Pod, apiVersion: v1, metadata: {name: " + name + ", labels: {app: web}}, spec: {" + spec + "}}"
	}
	var all []request
	for _, spec := range []string{
		"securityContext: {runAsUser: 1}, " + goodContainer,
		"securityContext: {supplementalGroups: [1]}, " + goodContainer,
		"containers: [{name: c, image: good, securityContext: {runAsUser: 1}}]",
		"containers: [{name: c, image: good, securityContext: {seLinuxOptions: {level: s0}}}]",
		"containers: [{name: c, image: good, resources: {requests: {cpu: '2'}}}]",
		"containers: [{name: c, image: a, resources: {limits: {memory: 1Gi}}}], initContainers: [{name: i, image: a}]",
	} {
		all = append(all, create(pods+dryRun, pod("x", spec)))
	}
	all = append(all, create(pods, pod("plain", goodContainer)),
		create(pods, pod("privileged", "containers: [{name: c, image: good, securityContext: {privileged: true}}]")),
		create(pods, pod("host", "hostPID: true, "+goodContainer)))
	for _, name := range []string{"plain", "privileged", "host", "none"} {
		for _, what := range []string{"exec?command=a", "attach", "portforward"} {
			all = append(all, create(pods+"/"+name+"/"+what, ""))
		}
	}
	all = append(all, patch("strategic", pods+"/plain/ephemeralcontainers",
		"spec: {ephemeralContainers: [{name: e, image: a, securityContext: {runAsUser: 1}}]}"),
		patch("strategic", pods+"/plain", "spec: {containers: [{name: c, image: other}]}"))

	const volumes = "/api/v1/persistentvolumes"
	for _, source := range []string{"awsElasticBlockStore: {volumeID: vol-1}",
		"awsElasticBlockStore: {volumeID: vol-2}", "hostPath: {path: /data}"} {
		all = append(all, create(volumes+dryRun, `{kind: PersistentVolume, apiVersion: v1, metadata: {name: v},
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], `+source+"}}"))
	}

	given := create(pods+dryRun, pod("x", goodContainer))
	given.until = "GIVEN"
	mounting := given
	mounting.until = "/given"
	return append(all,
		create(presets, `{kind: PodPreset, apiVersion: settings.k8s.io/v1alpha1, metadata: {name: env},
spec: {selector: {matchLabels: {app: web}}, env: [{name: GIVEN, value: "1"}]}}`), given,
		create(presets, `{kind: PodPreset, apiVersion: settings.k8s.io/v1alpha1, metadata: {name: mounts}, spec: {
volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /given}]}}`), mounting,
		create(pods+dryRun, pod("x", "containers: [{name: c, image: good, env: [{name: GIVEN, value: '2'}]}]")),
		create(pods, pod("preset", goodContainer)), get(pods+"/preset"))
}
