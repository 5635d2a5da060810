package initializers_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
)

const version = "admissionregistration.k8s.io/v1alpha1"

func runtimeConfig(setting string) gatehousetest.Option {
	key, value, _ := strings.Cut(setting, "=")
	return func(c *server.Config) { c.API.APIEnablement.RuntimeConfig = cliflag.ConfigurationMap{key: value} }
}

// Kubernetes has kinds of its own in the version. Without the plugin it means those.
func TestServed(t *testing.T) {
	plugin := gatehousetest.WithPlugins("Initializers")
	for name, test := range map[string]struct {
		options        []gatehousetest.Option
		configurations int
		policies       int
	}{
		"by default":                     {nil, http.StatusNotFound, http.StatusNotFound},
		"by the plugin":                  {[]gatehousetest.Option{plugin}, http.StatusOK, http.StatusNotFound},
		"by the plugin, and the version": {[]gatehousetest.Option{plugin, runtimeConfig(version + "=true")}, http.StatusOK, http.StatusNotFound},
		"by the plugin, and everything":  {[]gatehousetest.Option{plugin, runtimeConfig("api/all=true")}, http.StatusOK, http.StatusNotFound},
		"by the version":                 {[]gatehousetest.Option{runtimeConfig(version + "=true")}, http.StatusNotFound, http.StatusOK},
		"by its name":                    {[]gatehousetest.Option{runtimeConfig(version + "/initializerconfigurations=true")}, http.StatusOK, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, gatehousetest.Start(t, test.options...))
			for path, want := range map[string]int{
				"/apis/" + version + "/initializerconfigurations":                     test.configurations,
				"/apis/" + version + "/mutatingadmissionpolicies":                     test.policies,
				"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": http.StatusOK,
			} {
				var code int
				c.client.Discovery().RESTClient().Get().AbsPath(path).Do(t.Context()).StatusCode(&code)
				if code != want {
					t.Errorf("%s: %d, want %d", path, code, want)
				}
			}
		})
	}
}

func TestCantBeServed(t *testing.T) {
	for name, test := range map[string]struct{ setting, want string }{
		"with one of Kubernetes' kinds": {
			version + "/mutatingadmissionpolicies=true",
			"--runtime-config: mutatingadmissionpolicies of " + version + " can't be served where initializerconfigurations are; Kubernetes has them in another version, too",
		},
		"switched off": {
			version + "/initializerconfigurations=false",
			"--runtime-config: initializerconfigurations of " + version + " are switched off, but an admission plugin that is enabled needs them",
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := server.NewConfig(plugins.List)
			config.API.DataDir = t.TempDir()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			config.API.SecureServing.Listener = listener
			config.Admission.Enable = []string{"Initializers"}
			runtimeConfig(test.setting)(config)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if _, err := server.New(ctx, config); err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}
