// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/internal/configfile"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/plugin"
)

// Allowed says what the flags of suites may do besides choosing and configuring plugins. A suite may
// come from anybody, for example from a pull request.
type Allowed struct {
	// Calls allows flags by which webhooks and other backends are called.
	Calls bool
	// Exec allows kubeconfigs that run programs.
	Exec bool
}

// dataFlags are the flags that any suite may set: they name no file and cause no calls. checkFlags
// handles flags with files or calls. A suite may set no other flags.
var dataFlags = []string{"admission-control", "allow-incomplete", "authorize", "default-not-ready-toleration-seconds",
	"default-unreachable-toleration-seconds", "disable-admission-plugins", "enable-admission-plugins", "no-pods",
	"runtime-config", "service-account-issuer", "service-cluster-ip-range"}

// A confinement checks that the flags of a suite do no more than a suite may.
type confinement struct {
	Allowed
	ownFlags []suite.Flag
	within   input.Folders
	// valuesBefore has the values of the flags without the suite's own, by the flags' names.
	valuesBefore map[string]string
}

// checkFlags returns an error for each flag that the suite has set to a value that it may not.
func (c *confinement) checkFlags(fs *pflag.FlagSet) error {
	var errs []error
	fs.VisitAll(func(flag *pflag.Flag) {
		value := flag.Value.String()
		if value == c.valuesBefore[flag.Name] || value == flag.DefValue {
			return
		}
		var err error
		switch {
		case slices.Contains(dataFlags, flag.Name):
		case flag.Name == "webhooks" && value != string(plugin.WebhooksAsked):
		case flag.Name == "webhooks", flag.Name == "webhook":
			if !c.Calls {
				err = errors.New("a suite's flags may not cause calls: give --allow-calls, or this flag, to gatehouse test")
			}
		case flag.Name == "like":
			_, err = c.read(value)
		case flag.Name == "admission-control-config-file":
			err = c.checkConfiguration(value)
		default:
			err = errors.New("a suite may not set this flag: give it to gatehouse test")
		}
		if err != nil {
			errs = append(errs, c.flagError(flag.Name, value, err))
		}
	})
	return errors.Join(errs...)
}

// flagError returns an error about a flag, with the line that sets it: the flag's own, or that of
// --like.
func (c *confinement) flagError(name, value string, err error) error {
	for _, by := range []string{name, "like"} {
		for _, flag := range c.ownFlags {
			if flagName(flag.Text) == by {
				return &input.Error{Source: flag.Source, Err: fmt.Errorf("spec.flags: --%s=%s: %w", name, value, err)}
			}
		}
	}
	return fmt.Errorf("spec.flags: --%s=%s: %w", name, value, err)
}

// flagName returns the name of a flag as it is typed.
func flagName(flag string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
	return strings.ReplaceAll(name, "_", "-")
}

// maxFile bounds a configuration, in bytes.
const maxFile = 16 << 20

// read reads a file that the suite may read.
func (c *confinement) read(path string) ([]byte, error) {
	info, err := c.within.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, fileError(path, err)
	}
	file, err := c.within.Open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %d MiB", maxFile>>20)
	}
	if err != nil {
		return nil, fileError(path, err)
	}
	return data, nil
}

// fileError returns an error about a file, with a remedy if the file is outside of the suite's folders.
func fileError(path string, err error) error {
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		err = of.Err
	}
	if errors.Is(err, input.ErrOutside) {
		return fmt.Errorf("%s: %w: move it to the suite's folder, or give the flag to gatehouse test", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// checkConfiguration checks an admission configuration and all files that it names, before anything
// else reads them.
func (c *confinement) checkConfiguration(path string) error {
	document, err := c.readDocument(path)
	if err != nil {
		return err
	}
	var content struct {
		Plugins []struct {
			Name          string          `json:"name"`
			Path          string          `json:"path"`
			Configuration json.RawMessage `json:"configuration"`
		} `json:"plugins"`
	}
	if configfile.Lenient(document, &content) != nil {
		return nil // the server says what is wrong with it
	}
	for _, plugin := range content.Plugins {
		dir, document := filepath.Dir(path), []byte(plugin.Configuration)
		if plugin.Path != "" {
			named := resolvePath(dir, plugin.Path)
			if document, err = c.readDocument(named); err != nil {
				return fmt.Errorf("%s: the configuration of %s: %w", path, plugin.Name, err)
			}
			dir = filepath.Dir(named)
		}
		var fields any
		if json.Unmarshal(document, &fields) != nil {
			continue
		}
		if err := c.checkFields(dir, fields); err != nil {
			return fmt.Errorf("%s: the configuration of %s: %w", path, plugin.Name, err)
		}
	}
	return nil
}

// readDocument reads a configuration and converts it to JSON, as the server does.
func (c *confinement) readDocument(path string) ([]byte, error) {
	data, err := c.read(path)
	if err != nil || json.Valid(data) {
		return data, err
	}
	document, err := configfile.Document(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return document, nil
}

// checkFields checks the files that a plugin's configuration names. It recognizes such fields by their
// names. A test checks that all plugins name them so.
func (c *confinement) checkFields(dir string, value any) error {
	var errs []error
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			errs = append(errs, c.checkFields(dir, item))
		}
	case map[string]any:
		for key, field := range value {
			name, isText := field.(string)
			var err error
			switch lower := strings.ToLower(key); {
			case !isText:
				err = c.checkFields(dir, field)
			case name == "":
			case strings.HasSuffix(lower, "kubeconfigfile"):
				err = c.checkKubeconfig(resolvePath(dir, name))
			case strings.HasSuffix(lower, "file"), strings.HasSuffix(lower, "path"):
				_, err = c.read(resolvePath(dir, name))
			case strings.HasSuffix(lower, "dir"), strings.HasSuffix(lower, "directory"):
				err = c.checkFolder(resolvePath(dir, name))
			}
			if err != nil && isText {
				err = fmt.Errorf("%s: %w", key, err)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkFolder checks a folder whose files are read.
func (c *confinement) checkFolder(path string) error {
	dir, err := c.within.Open(path)
	if err != nil {
		return fileError(path, err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return fileError(path, err)
	}
	for _, entry := range entries {
		name := filepath.Join(path, entry.Name())
		if _, err := c.within.Stat(name); errors.Is(err, input.ErrOutside) {
			return fileError(name, err)
		}
	}
	return nil
}

// checkKubeconfig checks a kubeconfig, the files that it names, and that it runs no program.
func (c *confinement) checkKubeconfig(path string) error {
	data, err := c.read(path)
	if err != nil {
		return err
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var named []string
	for _, cluster := range config.Clusters {
		named = append(named, cluster.CertificateAuthority)
	}
	for name, user := range config.AuthInfos {
		named = append(named, user.ClientCertificate, user.ClientKey, user.TokenFile)
		if (user.Exec != nil || user.AuthProvider != nil) && !c.Exec {
			return fmt.Errorf("%s: user %q: exec and auth-provider run programs, which a suite may not: give "+
				"--allow-exec to gatehouse test", path, name)
		}
	}
	for _, file := range named {
		if file == "" {
			continue
		}
		if _, err := c.read(resolvePath(filepath.Dir(path), file)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// resolvePath returns a path that is relative to a folder.
func resolvePath(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
