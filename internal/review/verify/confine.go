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

// Allowed says what the flags of suites may do besides choosing what decides. A suite may come from
// anybody, for example from a pull request.
type Allowed struct {
	// Calls says that they may have webhooks and other backends called.
	Calls bool
	// Exec says that they may name kubeconfigs that run programs.
	Exec bool
}

// dataFlags are the flags that a suite may set whatever is allowed: they name no file and nothing
// that is called. Those with files or calls are in confine. Others a suite may not set.
var dataFlags = []string{"admission-control", "allow-incomplete", "authorize", "default-not-ready-toleration-seconds",
	"default-unreachable-toleration-seconds", "disable-admission-plugins", "enable-admission-plugins", "no-pods",
	"runtime-config", "service-account-issuer", "service-cluster-ip-range"}

// A confinement holds the flags of a suite within what a suite may do.
type confinement struct {
	Allowed
	own    []suite.Flag
	within input.Folders
	// before are the values of the flags without the suite's own.
	before map[string]string
}

// confine fails if the suite has set a flag to what it may not.
func (c *confinement) confine(fs *pflag.FlagSet) error {
	var errs []error
	fs.VisitAll(func(flag *pflag.Flag) {
		value := flag.Value.String()
		if value == c.before[flag.Name] || value == flag.DefValue {
			return
		}
		var err error
		switch {
		case slices.Contains(dataFlags, flag.Name):
		case flag.Name == "webhooks" && value != string(plugin.WebhooksAsked):
		case flag.Name == "webhooks", flag.Name == "webhook":
			if !c.Calls {
				err = errors.New("a suite's flags can't have anything called, unless gatehouse test is given " +
					"--allow-calls or the flag itself")
			}
		case flag.Name == "like":
			_, err = c.read(value)
		case flag.Name == "admission-control-config-file":
			err = c.configuration(value)
		default:
			err = errors.New("no flag of suites: give it to gatehouse test")
		}
		if err != nil {
			errs = append(errs, c.wrong(flag.Name, value, err))
		}
	})
	return errors.Join(errs...)
}

// wrong is an error of a flag, with where the suite sets it: by itself, or by what it is like.
func (c *confinement) wrong(name, value string, err error) error {
	for _, by := range []string{name, "like"} {
		for _, flag := range c.own {
			if nameOf(flag.Text) == by {
				return &input.Error{Source: flag.Source, Err: fmt.Errorf("spec.flags: --%s=%s: %w", name, value, err)}
			}
		}
	}
	return fmt.Errorf("spec.flags: --%s=%s: %w", name, value, err)
}

// nameOf is the name of a flag that is typed.
func nameOf(flag string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
	return strings.ReplaceAll(name, "_", "-")
}

// maxFile bounds a configuration, in bytes.
const maxFile = 16 << 20

// read reads a file that the suite may read.
func (c *confinement) read(path string) ([]byte, error) {
	info, err := c.within.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
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

// fileError is an error of a file, with what to do about one that is outside.
func fileError(path string, err error) error {
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		err = of.Err
	}
	if errors.Is(err, input.ErrOutside) {
		return fmt.Errorf("%s: %w: have it in the suite's folder, or give the flag to gatehouse test", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// configuration looks at an admission configuration and at all files that it names, before anything
// else reads them.
func (c *confinement) configuration(path string) error {
	document, err := c.document(path)
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
			named := from(dir, plugin.Path)
			if document, err = c.document(named); err != nil {
				return fmt.Errorf("%s: the configuration of %s: %w", path, plugin.Name, err)
			}
			dir = filepath.Dir(named)
		}
		var fields any
		if json.Unmarshal(document, &fields) != nil {
			continue
		}
		if err := c.fields(dir, fields); err != nil {
			return fmt.Errorf("%s: the configuration of %s: %w", path, plugin.Name, err)
		}
	}
	return nil
}

// document is a configuration in JSON, as the server reads it.
func (c *confinement) document(path string) ([]byte, error) {
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

// fields looks at the files that a plugin's configuration names. By their names fields say that
// they do; a test holds all plugins to that.
func (c *confinement) fields(dir string, value any) error {
	var errs []error
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			errs = append(errs, c.fields(dir, item))
		}
	case map[string]any:
		for key, field := range value {
			name, isText := field.(string)
			var err error
			switch lower := strings.ToLower(key); {
			case !isText:
				err = c.fields(dir, field)
			case name == "":
			case strings.HasSuffix(lower, "kubeconfigfile"):
				err = c.kubeconfig(from(dir, name))
			case strings.HasSuffix(lower, "file"), strings.HasSuffix(lower, "path"):
				_, err = c.read(from(dir, name))
			case strings.HasSuffix(lower, "dir"), strings.HasSuffix(lower, "directory"):
				err = c.folder(from(dir, name))
			}
			if err != nil && isText {
				err = fmt.Errorf("%s: %w", key, err)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// folder looks at a folder whose files are read.
func (c *confinement) folder(path string) error {
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

// kubeconfig looks at a kubeconfig: at the files that it names, and at what it runs.
func (c *confinement) kubeconfig(path string) error {
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
			return fmt.Errorf("%s: user %q: exec and auth-provider run programs, and a suite can't have any "+
				"run, unless "+
				"gatehouse test is given --allow-exec", path, name)
		}
	}
	for _, file := range named {
		if file == "" {
			continue
		}
		if _, err := c.read(from(filepath.Dir(path), file)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// from is a path as a file in a folder means it.
func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
