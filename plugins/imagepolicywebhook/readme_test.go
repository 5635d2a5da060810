// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package imagepolicywebhook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
	"gatehouse.dev/test/backends"
)

// The manual's configuration and kubeconfig are good as they stand there, in the places that they
// name.
func TestManual(t *testing.T) {
	manual, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(backends.StartImages(t, backends.AllowImages).Kubeconfig)
	block := func(marker, file string) string {
		_, rest, _ := strings.Cut(string(manual), "```"+marker)
		content, _, found := strings.Cut(rest, "```")
		if !found {
			t.Fatalf("README.md has no block %q", marker)
		}
		file = filepath.Join(dir, file)
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(content, "/etc/gatehouse", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	block("text\napiVersion: v1\nkind: Config", "images.kubeconfig")
	config, err := config.Load(block("yaml", "admission.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chain.New([]plugin.Descriptor{Descriptor}, config, &plugin.Env{}); err != nil {
		t.Error(err)
	}
}

// What is wrong stops the start, with the file, the field and the reason.
func TestStartIsStopped(t *testing.T) {
	dir := t.TempDir()
	write := func(file, content string) string {
		file = filepath.Join(dir, file)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const section = "imagePolicy: {allowTTL: 1801, kubeConfigFile: /nowhere}"
	own := write("own.yaml", section)
	const head = "apiVersion: apiserver.k8s.io/v1alpha1\nkind: AdmissionConfiguration\nplugins:\n- name: " +
		"ImagePolicyWebhook\n  "
	inline, byPath := write("inline.yaml", head+"configuration: {"+section+"}"),
		write("bypath.yaml", head+"path: own.yaml")
	for file, where := range map[string]string{inline: inline + ": plugins[0].configuration", byPath: own} {
		config, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = chain.New([]plugin.Descriptor{Descriptor}, config, &plugin.Env{})
		want := `admission plugin "ImagePolicyWebhook" (configured in ` + where +
			`): the configuration of ImagePolicyWebhook: ` +
			`[imagePolicy.kubeConfigFile: Invalid value: "/nowhere": open /nowhere: no such file or directory, ` +
			`imagePolicy.allowTTL: Invalid value: 1801: must be 1 to 1800 seconds, -1 for none, or 0 for the ` +
			`default of 300]`
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
