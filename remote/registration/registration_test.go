// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins/alwayspullimages"
	"gatehouse.dev/plugins/denyserviceexternalips"
	"gatehouse.dev/plugins/eventratelimit"
	"gatehouse.dev/plugins/namespacelifecycle"
	"gatehouse.dev/plugins/ownerreferencespermissionenforcement"
	"gatehouse.dev/plugins/podnodeselector"
	"gatehouse.dev/plugins/resourcequota"
)

// everything is a plugin that is asked about all there is.
var everything = plugin.Descriptor{Name: "Everything", Phases: plugin.Mutating, Operations: plugin.EveryOperation}

func options(change func(*Options)) *Options {
	o := &Options{Name: "gatehouse", Namespace: "gatehouse-system",
		Service: &Service{Namespace: "gatehouse-system", Name: "webhooks"},
		Plugins: []plugin.Descriptor{alwayspullimages.Descriptor, podnodeselector.Descriptor,
			denyserviceexternalips.Descriptor}}
	if change != nil {
		change(o)
	}
	return o
}

// What is wrong with options is said as an API server says it of the configurations.
func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"": nil,
		`name: Invalid value: "G": a `: func(o *Options) {
			o.Name = "G"
		},
		`name: Invalid value: "` + strings.Repeat("a", 64) + `": must be no more than 63`: func(o *Options) {
			o.Name = strings.Repeat("a", 64)
		},
		`namespace: Invalid value: "a.b": must not contain dots`: func(o *Options) {
			o.Namespace = "a.b"
		},
		`url: Required value: exactly one of url or service is required`: func(o *Options) {
			o.Service = nil
		},
		`url: Required value: exactly one of url or service is required `: func(o *Options) {
			o.URL = "https://a"
		},
		`url: Invalid value: "http": 'https' is the only allowed URL scheme`: atURL("http://a"),
		`url: Invalid value: "a=b": query parameters are not permitted`:      atURL("https://a?a=b"),
		`service.name: Required value`: func(o *Options) {
			o.Service.Name = ""
		},
		`service.port: Invalid value: -1: port is not valid`: func(o *Options) {
			o.Service.Port = -1
		},
		`timeout: Invalid value: "31s": the timeout value must be between 1 and`: func(o *Options) {
			o.Timeout = 31 * time.Second
		},
		`timeout: Invalid value: "1ms": the timeout value must be between 1 and`: func(o *Options) {
			o.Timeout = time.Millisecond
		},
		`exemptNamespaces[1]: Invalid value: "B"`: func(o *Options) {
			o.ExemptNamespaces = []string{"a", "B"}
		},
		`plugins: Required value`: func(o *Options) {
			o.Plugins = nil
		},
		`plugins[3]: Duplicate value: "AlwaysPullImages"`: func(o *Options) {
			o.Plugins = append(o.Plugins, o.Plugins[0])
		},
		`plugins[3]: Invalid value: "NamespaceLifecycle": can't run outside an API server: every API server runs`: func(
			o *Options) {
			o.Plugins = append(o.Plugins, namespacelifecycle.Descriptor)
		},
		`failurePolicy[Other]: Invalid value: "Other": is not among the plugins`: policies("Other", "Fail"),
		`failurePolicy[AlwaysPullImages]: Unsupported value: "No": supported values: "Fail", "Ignore"`: policies(
			"AlwaysPullImages", "No"),
	} {
		err := options(change).Validate()
		want = strings.TrimSpace(want)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func atURL(u string) func(*Options) {
	return func(o *Options) { o.URL, o.Service = u, nil }
}

func policies(of ...string) func(*Options) {
	return func(o *Options) {
		o.FailurePolicy = map[string]admissionregistrationv1.FailurePolicyType{}
		for i := 0; i < len(of); i += 2 {
			o.FailurePolicy[of[i]] = admissionregistrationv1.FailurePolicyType(of[i+1])
		}
	}
}

// inWords are the webhooks of both configurations: name, path, failure policy, resources that it is
// asked about, and match conditions.
func inWords(o *Options) []string {
	var words []string
	add := func(kind string, w *admissionregistrationv1.ValidatingWebhook) {
		var resources, conditions []string
		for _, r := range w.Rules {
			resources = append(resources, r.Resources...)
		}
		for _, c := range w.MatchConditions {
			conditions = append(conditions, c.Name)
		}
		at := w.ClientConfig.URL
		if s := w.ClientConfig.Service; s != nil {
			at = new(fmt.Sprintf("%s.%s:%d%s", s.Name, s.Namespace, *s.Port, *s.Path))
		}
		words = append(words, fmt.Sprint(kind, " ", w.Name, " ", *at, " ", *w.FailurePolicy, " ", resources, " except ",
			conditions))
	}
	if c := Mutating(o, nil); c != nil {
		for _, w := range c.Webhooks {
			add("M", &admissionregistrationv1.ValidatingWebhook{Name: w.Name, Rules: w.Rules,
				ClientConfig: w.ClientConfig, FailurePolicy: w.FailurePolicy, MatchConditions: w.MatchConditions})
		}
	}
	if c := Validating(o, nil); c != nil {
		for i := range c.Webhooks {
			add("V", &c.Webhooks[i])
		}
	}
	return words
}

// The configurations follow from the plugins.
func TestWebhooks(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"one call for all": {want: []string{
			"M mutate.gatehouse.dev webhooks.gatehouse-system:443/mutate Fail " +
				"[namespaces pods pods/ephemeralcontainers] except []",
			"V validate.gatehouse.dev webhooks.gatehouse-system:443/validate Fail " +
				"[namespaces pods pods/ephemeralcontainers services] except []",
		}},
		"one for each failure policy": {change: policies("PodNodeSelector", "Ignore", "AlwaysPullImages", "Fail"),
			want: []string{
				"M mutate.gatehouse.dev webhooks.gatehouse-system:443/mutate Fail " +
					"[pods pods/ephemeralcontainers] except []",
				"M mutate-ignore.gatehouse.dev webhooks.gatehouse-system:443/mutate/ignore Ignore [namespaces pods] except []",
				"V validate.gatehouse.dev webhooks.gatehouse-system:443/validate Fail " +
					"[pods pods/ephemeralcontainers services] except []",
				"V validate-ignore.gatehouse.dev webhooks.gatehouse-system:443/validate/ignore Ignore [namespaces pods] except []",
			}},
		"one for each plugin": {change: func(o *Options) {
			o.URL, o.Service, o.PerPlugin = "https://10.0.0.1:8443/", nil, true
			policies("PodNodeSelector", "Ignore")(o)
		}, want: []string{
			"M alwayspullimages.gatehouse.dev https://10.0.0.1:8443/mutate/alwayspullimages Fail " +
				"[pods pods/ephemeralcontainers] except []",
			"M podnodeselector.gatehouse.dev https://10.0.0.1:8443/mutate/podnodeselector Ignore [namespaces pods] except []",
			"V alwayspullimages.gatehouse.dev https://10.0.0.1:8443/validate/alwayspullimages Fail " +
				"[pods pods/ephemeralcontainers] except []",
			"V podnodeselector.gatehouse.dev https://10.0.0.1:8443/validate/podnodeselector Ignore [namespaces pods] except []",
			"V denyserviceexternalips.gatehouse.dev https://10.0.0.1:8443/validate/denyserviceexternalips Fail " +
				"[services] except []",
		}},
		"a phase without plugins": {change: func(o *Options) { o.Plugins = o.Plugins[2:] }, want: []string{
			"V validate.gatehouse.dev webhooks.gatehouse-system:443/validate Fail [services] except []"}},
		"everything": {change: func(o *Options) {
			o.User = "system:serviceaccount:gatehouse-system:gatehouse"
			o.Plugins = []plugin.Descriptor{everything, ownerreferencespermissionenforcement.Descriptor}
		}, want: []string{
			"M mutate.gatehouse.dev webhooks.gatehouse-system:443/mutate Fail [*/*] except " +
				"[leases events reviews own-writes]",
			"V validate.gatehouse.dev webhooks.gatehouse-system:443/validate Fail [*/*] except " +
				"[leases events reviews own-writes]",
		}},
		"events that somebody asks for": {change: func(o *Options) {
			o.User = "alice"
			o.Plugins = []plugin.Descriptor{resourcequota.Descriptor, eventratelimit.Descriptor}
		}, want: []string{"V validate.gatehouse.dev webhooks.gatehouse-system:443/validate Fail [*/*] except " +
			"[leases reviews own-writes]"}},
		"events alone": {change: func(o *Options) { o.Plugins = []plugin.Descriptor{eventratelimit.Descriptor} },
			want: []string{"V validate.gatehouse.dev webhooks.gatehouse-system:443/validate Fail " +
				"[events events] except []"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(test.change)
			if err := o.Validate(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, inWords(o)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What is the same for all webhooks.
func TestWebhook(t *testing.T) {
	for _, test := range []struct {
		change func(*Options)
		exempt []string
		wait   int32
		hosts  []string
	}{
		{nil, []string{"gatehouse-system", "kube-system"}, 10, []string{"webhooks.gatehouse-system.svc"}},
		{func(o *Options) { o.Namespace, o.Timeout = "kube-system", 1500*time.Millisecond }, []string{"kube-system"}, 2,
			[]string{"webhooks.gatehouse-system.svc"}},
		{func(o *Options) { o.ExemptNamespaces, o.URL = []string{}, "https://[::1]:1"; o.Service = nil }, nil, 10,
			[]string{"::1"}},
	} {
		o := options(test.change)
		if diff := cmp.Diff(test.hosts, o.Hosts()); diff != "" {
			t.Errorf("hosts: -want +got:\n%s", diff)
		}
		w := Mutating(o, []byte("bundle")).Webhooks[0]
		var exempt []string
		for _, e := range w.NamespaceSelector.MatchExpressions {
			exempt = append(exempt, e.Values...)
			if e.Key != "kubernetes.io/metadata.name" || e.Operator != "NotIn" {
				t.Error(e)
			}
		}
		if !slices.Equal(exempt, test.exempt) || *w.TimeoutSeconds != test.wait ||
			string(w.ClientConfig.CABundle) != "bundle" || *w.ReinvocationPolicy != "IfNeeded" ||
			*w.MatchPolicy != "Equivalent" || *w.SideEffects != "NoneOnDryRun" ||
			!slices.Equal(w.AdmissionReviewVersions, []string{"v1", "v1beta1"}) {
			t.Errorf("%+v", w)
		}
	}
}

// A replica serves what configurations of other options call, too.
func TestServed(t *testing.T) {
	served := map[string]string{}
	for _, call := range Served(options(policies("PodNodeSelector", "Ignore"))) {
		var names []string
		for _, p := range call.Plugins {
			names = append(names, p.Name)
		}
		served[call.Path] = fmt.Sprint(call.Phase, " ", names)
	}
	if diff := cmp.Diff(map[string]string{
		"/mutate":                          "mutating [AlwaysPullImages]",
		"/mutate/ignore":                   "mutating [PodNodeSelector]",
		"/mutate/alwayspullimages":         "mutating [AlwaysPullImages]",
		"/mutate/podnodeselector":          "mutating [PodNodeSelector]",
		"/validate":                        "validating [AlwaysPullImages DenyServiceExternalIPs]",
		"/validate/ignore":                 "validating [PodNodeSelector]",
		"/validate/alwayspullimages":       "validating [AlwaysPullImages]",
		"/validate/podnodeselector":        "validating [PodNodeSelector]",
		"/validate/denyserviceexternalips": "validating [DenyServiceExternalIPs]",
	}, served); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, perPlugin := range []bool{false, true} {
		for _, call := range Calls(options(func(o *Options) { o.PerPlugin = perPlugin })) {
			if !slices.Contains(slices.Collect(maps.Keys(served)), call.Path) {
				t.Errorf("%s isn't served", call.Path)
			}
		}
	}
}

// The audiences are the addresses of all calls, as the configurations have them.
func TestAudiences(t *testing.T) {
	plugins := []plugin.Descriptor{{Name: "A", Phases: plugin.Mutating}, {Name: "B", Phases: plugin.Validating}}
	for want, o := range map[string]*Options{
		"https://a:1/mutate https://a:1/mutate/a https://a:1/validate https://a:1/validate/b https://a:1/probe": {
			URL: "https://a:1/"},
		"https://s.n.svc:443/mutate https://s.n.svc:443/mutate/a https://s.n.svc:443/validate " +
			"https://s.n.svc:443/validate/b https://s.n.svc:443/probe": {Service: &Service{Namespace: "n", Name: "s"}},
	} {
		o.Plugins = plugins
		if got := strings.Join(Audiences(o), " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
