package server

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	admissionregistrationv1alpha1 "gatehouse.dev/apis/admissionregistration/v1alpha1"
	policyv1beta1 "gatehouse.dev/apis/policy/v1beta1"
	settingsv1alpha1 "gatehouse.dev/apis/settings/v1alpha1"
)

// hidesObjects is the plugin whose objects the API server hides until they are initialized.
const hidesObjects = "Initializers"

// pluginAPIs are the resources, of kinds that Kubernetes removed, that a plugin works with. Whoever enables the plugin needs no --runtime-config.
var pluginAPIs = map[string]schema.GroupVersionResource{
	hidesObjects:        admissionregistrationv1alpha1.InitializerConfigurations,
	"PodPreset":         settingsv1alpha1.PodPresets,
	"PodSecurityPolicy": policyv1beta1.PodSecurityPolicies,
}

// requireAPIs makes the API server serve what the plugins that will run work with.
func (c *Config) requireAPIs() error {
	selected, err := c.Admission.Select(c.Plugins)
	if err != nil {
		return err
	}
	for _, plugin := range selected {
		if resource, ok := pluginAPIs[plugin.Name]; ok {
			c.API.RequiredAPIs = append(c.API.RequiredAPIs, resource)
		}
		c.API.HideUninitialized = c.API.HideUninitialized || plugin.Name == hidesObjects
	}
	return nil
}
