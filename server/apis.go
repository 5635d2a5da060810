package server

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	networkingv1 "k8s.io/api/networking/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	admissionregistrationv1alpha1 "gatehouse.dev/apis/admissionregistration/v1alpha1"
	policyv1beta1 "gatehouse.dev/apis/policy/v1beta1"
	settingsv1alpha1 "gatehouse.dev/apis/settings/v1alpha1"
)

// hidesObjects is the plugin whose objects the API server hides until they are initialized.
const hidesObjects = "Initializers"

// pluginAPIs are the resources that a plugin works with and that --runtime-config can switch off.
// Of kinds that Kubernetes removed, whoever enables the plugin needs no --runtime-config.
var pluginAPIs = map[string]schema.GroupVersionResource{
	hidesObjects:        admissionregistrationv1alpha1.InitializerConfigurations,
	"PodPreset":         settingsv1alpha1.PodPresets,
	"PodSecurityPolicy": policyv1beta1.PodSecurityPolicies,
	"MutatingAdmissionWebhook": admissionregistrationv1.SchemeGroupVersion.WithResource(
		"mutatingwebhookconfigurations"),
	"ValidatingAdmissionWebhook": admissionregistrationv1.SchemeGroupVersion.WithResource(
		"validatingwebhookconfigurations"),
	"DefaultIngressClass":         networkingv1.SchemeGroupVersion.WithResource("ingressclasses"),
	"DefaultStorageClass":         storagev1.SchemeGroupVersion.WithResource("storageclasses"),
	"PersistentVolumeClaimResize": storagev1.SchemeGroupVersion.WithResource("storageclasses"),
	"Priority":                    schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"),
}

// requireAPIs makes the API server serve what the plugins that will run work with.
func (c *Config) requireAPIs() error {
	selected, err := c.Admission.Select(c.Plugins)
	if err != nil {
		return err
	}
	c.API.RequiredAPIs = map[schema.GroupVersionResource][]string{}
	for _, plugin := range selected {
		if resource, ok := pluginAPIs[plugin.Name]; ok {
			c.API.RequiredAPIs[resource] = append(c.API.RequiredAPIs[resource], plugin.Name)
		}
		c.API.HideUninitialized = c.API.HideUninitialized || plugin.Name == hidesObjects
	}
	return nil
}
