// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/wholefile"
)

func newEnvtest() *cobra.Command {
	return &cobra.Command{
		Use:   "envtest [DIR]",
		Short: "Make a folder with the binaries for controller-runtime's envtest",
		Long: `Make a folder with the binaries for controller-runtime's envtest, and print its path.

It has kube-apiserver and etcd, which are links to this program, and kubectl, if there is one on the
PATH. Without DIR the folder is in the user's cache.`,
		Example: `  # Every test of this shell with envtest runs on Gatehouse
  export KUBEBUILDER_ASSETS=$(gatehouse envtest)
  go test ./...

  # In a folder of the project's
  gatehouse envtest bin/envtest`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return commandline.Usage(fmt.Errorf("%s takes one folder at most, got %q (see '%s --help')",
					c.CommandPath(), args, c.CommandPath()))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			var dir string
			if len(args) > 0 {
				dir, err = filepath.Abs(args[0])
			} else {
				dir, err = cachedAssets(program)
			}
			if err != nil {
				return err
			}
			if err := linkAssets(dir, program); err != nil {
				return fmt.Errorf("envtest's folder %s can't be made: %w", dir, err)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), dir)
			return err
		},
	}
}

// cachedAssets returns the folder for a program in the user's cache. Each program has its own
// folder, because tests with another version may be running.
func cachedAssets(program string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no cache to make a folder in: %w (name one: gatehouse envtest DIR)", err)
	}
	return filepath.Join(cache, "gatehouse", fmt.Sprintf("envtest-%x", sha256.Sum256([]byte(program)))[:20]), nil
}

// linkAssets makes dir a folder for KUBEBUILDER_ASSETS. It may be in use.
func linkAssets(dir, program string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{kubeAPIServerName, etcdName} {
		if err := link(program, filepath.Join(dir, executableName(name))); err != nil {
			return err
		}
	}
	kubectl := filepath.Join(dir, executableName("kubectl"))
	found, err := exec.LookPath("kubectl")
	if err == nil {
		found, err = filepath.Abs(found)
	}
	switch {
	case err == nil && found != kubectl: // the folder may be on the PATH
		return link(found, kubectl)
	case errors.Is(err, exec.ErrNotFound):
		if _, err := os.Readlink(kubectl); err != nil {
			return nil // there is none, or one that somebody has put there
		}
		return os.Remove(kubectl)
	}
	return nil
}

// link makes name lead to program. It replaces it atomically, because a test may start it
// meanwhile.
func link(program, name string) error {
	if there, err := os.Readlink(name); err == nil && there == program {
		return nil
	} else if is, program := stat(name), stat(program); err != nil && is != nil && !os.SameFile(is, program) {
		return fmt.Errorf("%s is a file, and no link that gatehouse envtest has made: remove it, or name another "+
			"folder", name)
	}
	temp, err := os.MkdirTemp(filepath.Dir(name), ".new-")
	if err != nil {
		return wholefile.Rename(err, "", name)
	}
	defer os.RemoveAll(temp)
	made := filepath.Join(temp, filepath.Base(name))
	// Windows lets few users make symbolic links.
	if symbolic := os.Symlink(program, made); symbolic != nil {
		if err := os.Link(program, made); err != nil {
			return wholefile.Rename(errors.Join(symbolic, err), made, name)
		}
	}
	return wholefile.Rename(os.Rename(made, name), made, name)
}

// stat returns nil if the file doesn't exist.
func stat(name string) os.FileInfo {
	info, err := os.Lstat(name)
	if err != nil {
		return nil
	}
	return info
}

// executableName returns the name of a program's file.
func executableName(program string) string {
	if runtime.GOOS == "windows" {
		return program + ".exe"
	}
	return program
}
