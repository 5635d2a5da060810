// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/apiserver/datadir"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/wholefile"
)

// gatehouseExtension is the extension that marks clusters and users of a kubeconfig as Gatehouse's.
const gatehouseExtension = "gatehouse.dev"

// contextName matches the allowed names of a context, and of its cluster and user.
var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@:/-]*$`)

func newKubeconfig() *cobra.Command {
	dir, name := apiserver.DefaultDataDir, ""
	var merge bool
	access := clientcmd.NewDefaultPathOptions()
	c := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a server's kubeconfig, or merge it into your own",
		Long: `Print the kubeconfig of a server's administrator. With --merge it goes into your own kubeconfig, as
the context --name, which becomes the current one: the first file of $KUBECONFIG, or ~/.kube/config.
Everything else in the file stays. A context of that name is replaced only if it was Gatehouse's.`,
		Example: `  # kubectl's current context is the server in ./gatehouse-data
  gatehouse kubeconfig --merge

  # Two servers on one machine
  gatehouse kubeconfig --merge --name=one --data-dir=one
  gatehouse kubeconfig --merge --name=two --data-dir=two
  kubectl --context=one get namespaces`,
		Args: commandline.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !contextName.MatchString(name) {
				return commandline.Usage(fmt.Errorf("--name %q must begin with a letter or a digit, and have only "+
					"those and . _ - @ : /", name))
			}
			file := filepath.Join(dir, datadir.AdminKubeconfig)
			admin, err := clientcmd.LoadFromFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				return commandline.Usage(fmt.Errorf("data directory %s has no %s: no server has been started on it",
					dir, datadir.AdminKubeconfig))
			} else if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			named, err := renameContext(admin, name)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if !merge {
				data, err := clientcmd.Write(*named)
				if err != nil {
					return err
				}
				_, err = c.OutOrStdout().Write(data)
				return err
			}
			into := access.GetDefaultFilename()
			for _, into := range access.GetLoadingPrecedence() {
				if isServerKubeconfig(into, file) {
					return commandline.Usage(fmt.Errorf("kubeconfig %s is a server's own, which each start writes "+
						"anew: unset KUBECONFIG to merge into ~/.kube/config, or name a file with --kubeconfig", into))
				}
			}
			notes, err := mergeInto(access, named, name)
			printNotes(c, notes...)
			if err != nil {
				return fmt.Errorf("kubeconfig %s: %w", into, err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "context %s is the current one of %s\n", name, into)
			return err
		},
	}
	addDataDir(c, &dir, "The directory of the server.")
	c.Flags().StringVar(&name, "name", "gatehouse", "The name of the context, its cluster and its user.")
	c.Flags().BoolVar(&merge, "merge", false, "Merge it into your own kubeconfig, rather than print it.")
	c.Flags().StringVar(&access.LoadingRules.ExplicitPath, "kubeconfig", "", "The kubeconfig file to merge it into.")
	return c
}

// isServerKubeconfig reports whether a kubeconfig was written by a server: it is own, or is in the data
// directory of another server.
func isServerKubeconfig(file, own string) bool {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false // it isn't there
	}
	if ownReal, err := filepath.EvalSymlinks(own); err == nil && ownReal == real {
		return true
	}
	_, err = os.Stat(filepath.Join(filepath.Dir(real), datadir.PKI))
	return err == nil && filepath.Base(real) == datadir.AdminKubeconfig
}

// renameContext returns the current context of a kubeconfig, with its cluster and user, under another
// name.
func renameContext(config *clientcmdapi.Config, name string) (*clientcmdapi.Config, error) {
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.Clusters[context.Cluster] == nil || config.AuthInfos[context.AuthInfo] == nil {
		return nil, errors.New("has no current context with a cluster and a user")
	}
	named := clientcmdapi.NewConfig()
	named.Clusters[name], named.AuthInfos[name] = config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	named.Contexts[name] = context
	context.Cluster, context.AuthInfo = name, name
	mark := map[string]runtime.Object{gatehouseExtension: &runtime.Unknown{Raw: []byte(`{"server":"gatehouse"}`),
		ContentType: runtime.ContentTypeJSON}}
	named.Clusters[name].Extensions, named.AuthInfos[name].Extensions = mark, mark
	// They are in another file now.
	named.Clusters[name].LocationOfOrigin, named.AuthInfos[name].LocationOfOrigin = "", ""
	context.LocationOfOrigin = ""
	named.CurrentContext = name
	return named, nil
}

// mergeInto adds the one context of a kubeconfig to the user's, as kubectl config would, with all of the
// user's files locked. It changes the files that have the context, its cluster and its user already, or else the
// first file. The notes say which files could not be replaced as a whole.
func mergeInto(access clientcmd.ConfigAccess, named *clientcmdapi.Config, name string) (notes []string, err error) {
	unlock, err := lockFiles(access.GetLoadingPrecedence())
	defer unlock()
	if err != nil {
		return nil, err
	}
	config, err := access.GetStartingConfig()
	if err != nil {
		return nil, err
	}
	if err := putContext(config, named, name); err != nil {
		return nil, err
	}
	first, cluster, user, context := access.GetDefaultFilename(), named.Clusters[name], named.AuthInfos[name], named.Contexts[name]
	clusterFile, userFile, contextFile := cmp.Or(cluster.LocationOfOrigin, first), cmp.Or(user.LocationOfOrigin, first),
		cmp.Or(context.LocationOfOrigin, first)
	if err := datadir.CheckSecret(userFile); err != nil {
		return nil, fmt.Errorf("an administrator's key would be in it, and %w", err)
	}
	files := []string{clusterFile, userFile, contextFile, first}
	slices.Sort(files)
	for _, file := range slices.Compact(files) {
		config, err := clientcmd.LoadFromFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			config, err = clientcmdapi.NewConfig(), nil
		}
		if err != nil {
			return notes, err
		}
		if file == clusterFile {
			config.Clusters[name] = cluster
		}
		if file == userFile {
			config.AuthInfos[name] = user
		}
		if file == contextFile {
			config.Contexts[name] = context
		}
		if file == first {
			config.CurrentContext = name
		}
		data, err := clientcmd.Write(*config)
		if err != nil {
			return notes, err
		}
		note, err := wholefile.Replace(file, data, 0o600)
		if err != nil {
			return notes, err
		}
		notes = append(notes, note)
	}
	return notes, nil
}

// lockFiles locks kubeconfigs as kubectl does, and makes their directories. unlock is never nil.
func lockFiles(files []string) (unlock func(), err error) {
	var locks []string
	unlock = func() {
		for _, lock := range locks {
			os.Remove(lock)
		}
	}
	for _, file := range slices.Sorted(slices.Values(files)) { // in an order that all share
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return unlock, err
		}
		lock := file + ".lock"
		made, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL, 0)
		if err != nil {
			return unlock, err
		}
		made.Close()
		locks = append(locks, lock)
	}
	return unlock, nil
}

// putContext puts the context of a kubeconfig into the user's under that name. It replaces an existing
// one only if it is Gatehouse's.
func putContext(config, named *clientcmdapi.Config, name string) error {
	cluster, user, context := named.Clusters[name], named.AuthInfos[name], named.Contexts[name]
	if there := config.Clusters[name]; there != nil {
		if there.Extensions[gatehouseExtension] == nil {
			return fmt.Errorf("there is a cluster %q already that is not of Gatehouse: choose another --name", name)
		}
		cluster.LocationOfOrigin = there.LocationOfOrigin
	}
	// The user and the context are checked too, since a cluster may have been removed by hand.
	if there := config.AuthInfos[name]; there != nil {
		if there.Extensions[gatehouseExtension] == nil {
			return fmt.Errorf("there is a user %q already that is not of Gatehouse: choose another --name", name)
		}
		user.LocationOfOrigin = there.LocationOfOrigin
	}
	if there := config.Contexts[name]; there != nil {
		if there.Cluster != name || there.AuthInfo != name {
			return fmt.Errorf("there is a context %q already that is not of Gatehouse: choose another --name", name)
		}
		context.LocationOfOrigin, context.Namespace = there.LocationOfOrigin, there.Namespace
	}
	return nil
}
