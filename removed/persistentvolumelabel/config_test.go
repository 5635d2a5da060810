// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
	"gatehouse.dev/test/backends"
)

func TestDefaults(t *testing.T) {
	ec2, google := backends.EC2(t, nil), backends.GCE(t)
	c, err := load(strings.NewReader(head + "aws: {region: cn-north-1, credentialsFile: " + ec2.CredentialsFile +
		"}\ngce: {project: 'example.com:p-1', region: us-east1, credentialsFile: " + google.CredentialsFile + "}"))
	if err != nil {
		t.Fatal(err)
	}
	if c.timeout != 10*time.Second || c.ttl != 10*time.Minute {
		t.Errorf("timeout %v, TTL %v", c.timeout, c.ttl)
	}
	if got := c.aws.(*aws); got.endpoint != "https://ec2.cn-north-1.amazonaws.com.cn/" ||
		got.profile != "default" {
		t.Errorf("got %+v", got)
	}
	if got := c.gce.(*gce); got.endpoint != "https://compute.googleapis.com/compute/v1" {
		t.Errorf("got %+v", got)
	}
}

func TestWrongConfiguration(t *testing.T) {
	ec2, google := backends.EC2(t, nil), backends.GCE(t)
	open := filepath.Join(t.TempDir(), "open")
	if err := os.WriteFile(open, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o604); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, maxSecret+1), 0o600); err != nil {
		t.Fatal(err)
	}
	aws := func(more string) string {
		return head + "aws: {region: us-east-1, credentialsFile: " + ec2.CredentialsFile + ", " + more + "}"
	}
	pd := func(more string) string { return head + "gce: {project: p, region: us-central1, " + more + "}" }
	const onlyHost = "must be an https URL of nothing but a host, such as https://ec2.us-east-1.amazonaws.com"
	const noQuery = "must be an https URL without a query, such as https://compute.googleapis.com/compute/v1"
	const machine = "must be an http or https URL of nothing but a host, such as http://metadata.google.internal"
	for name, test := range map[string]struct{ config, want string }{
		"another kind": {"apiVersion: v1\nkind: X",
			`is kind "X" in apiVersion "v1", must be kind PersistentVolumeLabelConfiguration in apiVersion ` +
				`gatehouse.dev/v1alpha1`},
		"an unknown field": {aws("accessKey: s3cr3t"), `unknown field "aws.accessKey"`},
		"no duration":      {head + "timeout: 10", `timeout: is of type number, must be a string`},
		"not within": {head + "timeout: 31s\ncacheTTL: -1s",
			`[timeout: Invalid value: "31s": must be a duration greater than zero such as 10s, 30s at most, ` +
				`cacheTTL: Invalid value: "-1s": must be a duration such as 10m, 0s for none]`},
		"no durations": {head + "timeout: 0s\ncacheTTL: long",
			`[timeout: Invalid value: "0s": must be a duration greater than zero such as 10s, 30s at most, ` +
				`cacheTTL: Invalid value: "long": must be a duration such as 10m, 0s for none]`},
		"nothing of AWS": {head + "aws: {}",
			`[aws.region: Invalid value: "": must be a region of AWS, such as us-east-1, aws.credentialsFile: ` +
				`Required value: must be the path of a file with an access key, as AWS' tools have it in ` +
				`~/.aws/credentials]`},
		"a zone of AWS": {head + "aws: {region: us-east-1a, credentialsFile: " + ec2.CredentialsFile + "}",
			`aws.region: Invalid value: "us-east-1a": must be a region of AWS, such as us-east-1`},
		"no file": {head + "aws: {region: us-east-1, credentialsFile: /nowhere}",
			`aws.credentialsFile: Invalid value: "/nowhere": stat /nowhere: no such file or directory`},
		"a file for everybody": {head + "aws: {region: us-east-1, credentialsFile: " + open + "}",
			`aws.credentialsFile: Invalid value: "` + open + `": ` + open +
				` has mode 0604: it holds secrets, so nobody but its owner may have access (chmod 600)`},
		"a file of no end": {head + "aws: {region: us-east-1, credentialsFile: " + large + "}",
			`aws.credentialsFile: Invalid value: "` + large + `": ` + large + ` has more than 1048576 bytes`},
		"a directory": {head + "aws: {region: us-east-1, credentialsFile: /}",
			`aws.credentialsFile: Invalid value: "/": / is not a regular file`},
		"another profile": {aws("profile: prod"), `aws.credentialsFile: Invalid value: "` + ec2.CredentialsFile +
			`": ` + ec2.CredentialsFile + `: has no profile [prod] with aws_access_key_id and aws_secret_access_key`},
		"EC2 in the open": {aws("endpoint: 'http://ec2.example.com'"), "aws.endpoint: Invalid value: " +
			onlyHost},
		"EC2 with a path": {aws("endpoint: 'https://ec2.example.com/path'"), "aws.endpoint: Invalid value: " +
			onlyHost},
		"EC2 with a password": {aws("endpoint: 'https://u:s3cr3t@ec2.example.com'"), "aws.endpoint: Invalid value: " +
			onlyHost},
		"EC2 with a query": {aws("endpoint: 'https://ec2.example.com?a=b'"), "aws.endpoint: Invalid value: " +
			onlyHost},
		"EC2, no URL": {aws("endpoint: ':'"), "aws.endpoint: Invalid value: " + onlyHost},
		"no authority": {aws("certificateAuthorityFile: /nowhere"),
			`aws.certificateAuthorityFile: Invalid value: "/nowhere": open /nowhere: no such file or directory`},
		"no certificate": {aws("certificateAuthorityFile: " + ec2.CredentialsFile),
			`aws.certificateAuthorityFile: Invalid value: "` + ec2.CredentialsFile +
				`": unable to load root certificates: unable to parse bytes as PEM block`},
		"nothing of GCE": {head + "gce: {}",
			`[gce.project: Invalid value: "": must be the ID of a Google Cloud project, gce.region: Invalid value: ` +
				`"": must be a region of Google Cloud, such as us-central1]`},
		"a zone of GCE": {head + "gce: {project: ../p, region: us-central1-a}",
			`[gce.project: Invalid value: "../p": must be the ID of a Google Cloud project, gce.region: Invalid ` +
				`value: "us-central1-a": must be a region of Google Cloud, such as us-central1]`},
		"GCE in the open": {pd("endpoint: 'http://compute.example.com'"), "gce.endpoint: Invalid value: " +
			noQuery},
		"GCE with a query": {pd("endpoint: 'https://compute.example.com?key=s3cr3t'"),
			"gce.endpoint: Invalid value: " + noQuery},
		"an AWS key for GCE": {pd("credentialsFile: " + ec2.CredentialsFile),
			`gce.credentialsFile: Invalid value: "` + ec2.CredentialsFile + `": ` + ec2.CredentialsFile +
				`: invalid character 'd' looking for beginning of value`},
		"GCE, no certificate": {pd("certificateAuthorityFile: /nowhere"),
			`gce.certificateAuthorityFile: Invalid value: "/nowhere": open /nowhere: no such file or directory`},
		"two credentials": {pd("metadataServer: 'http://metadata', credentialsFile: " + google.CredentialsFile),
			"gce.metadataServer: Forbidden: can't be set together with credentialsFile, remove one of them"},
		"a metadata server's": {pd("metadataServer: 'http://metadata/path'"), "gce.metadataServer: Invalid value: " +
			machine},
		"no metadata server": {pd("metadataServer: metadata"), "gce.metadataServer: Invalid value: " + machine},
		"two things, two names": {head + "aws: {region: x, credentialsFile: " + ec2.CredentialsFile +
			"}\ngce: {project: p, region: x}",
			`[aws.region: Invalid value: "x": must be a region of AWS, such as us-east-1, gce.region: Invalid ` +
				`value: "x": must be a region of Google Cloud, such as us-central1]`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Descriptor.New(strings.NewReader(test.config), &plugin.Env{})
			if want := "the configuration of PersistentVolumeLabel: " + test.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("tells a secret: %v", err)
			}
		})
	}
	if _, err := Descriptor.New(iotest.ErrReader(errors.New("disk gone")), &plugin.Env{}); err == nil ||
		err.Error() != "reading the configuration of PersistentVolumeLabel: disk gone" {
		t.Errorf("got %v", err)
	}
}

// The manual's configuration is good as it stands there, with files in the places that it names.
func TestManual(t *testing.T) {
	manual, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ec2, google := backends.EC2(t, nil), backends.GCE(t)
	for name, from := range map[string]string{"aws-credentials": ec2.CredentialsFile,
		"gce-key.json": google.CredentialsFile} {
		if err := os.Symlink(from, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, rest, _ := strings.Cut(string(manual), "```yaml\n")
	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("README.md has no block yaml")
	}
	file := filepath.Join(dir, "admission.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(block, "/etc/gatehouse", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chain.New([]plugin.Descriptor{Descriptor}, config, &plugin.Env{}); err != nil {
		t.Error(err)
	}
}
