// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/apiserver/backup"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/wholefile"
)

// stdioName is the file name that stands for the standard input or output.
const stdioName = "-"

func newBackup() *cobra.Command {
	dir, force := apiserver.DefaultDataDir, false
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Save what a server keeps to one file",
		Long: `Save what a server keeps in its data directory to one file: everything in its own etcd, and the
keys by which clients know it. The server may run, and goes on. The file appears whole or not at
all. Only its owner may read it, because it has all secrets of the cluster. An existing file is
replaced only with --force.`,
		Example: `  # Of the server in ./gatehouse-data, running or not
  gatehouse backup monday.backup

  # Of another server, encrypted
  gatehouse backup - --data-dir=/var/lib/gatehouse | age -r age1… > monday.age`,
		Args: checkOneFile,
		RunE: func(c *cobra.Command, args []string) error {
			shown := newProgress(c.ErrOrStderr())
			save := func(out io.Writer) error {
				defer shown.during("saving")()
				return backup.Save(c.Context(), dir, out, shown.bytes("saving"))
			}
			if args[0] != stdioName {
				write := wholefile.Create
				if force {
					write = wholefile.Write
				}
				err := write(args[0], save)
				if errors.Is(err, fs.ErrExist) {
					return commandline.Usage(fmt.Errorf("%s is there already: name another file, or replace it with "+
						"--force", args[0]))
				}
				if err != nil {
					return err
				}
				saved, err := os.Stat(args[0])
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "saved %s: %d kB of %s\nRestore it:  gatehouse restore %s\n", args[0],
					(saved.Size()+999)/1000, dir, args[0])
				return err
			}
			if file, ok := c.OutOrStdout().(*os.File); ok && term.IsTerminal(int(file.Fd())) {
				return commandline.Usage(errors.New("a backup is nothing for a terminal: name a file, or redirect"))
			}
			return save(c.OutOrStdout())
		},
	}
	addDataDir(c, &dir, "The directory of the server that is saved.")
	c.Flags().BoolVar(&force, "force", false, "Replace an existing file.")
	return c
}

func newRestore() *cobra.Command {
	dir := apiserver.DefaultDataDir
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory from a backup",
		Long: `Make a data directory from a backup of gatehouse backup. The directory must not exist, or be empty.
The file is checked to its last byte before anything is written. A server that is started on the
directory is the one that was saved: old kubeconfigs and tokens are valid for it, and clients read
everything anew.`,
		Example: `  gatehouse restore monday.backup --data-dir=gatehouse-data
  gatehouse serve`,
		Args: checkOneFile,
		RunE: func(c *cobra.Command, args []string) error {
			in := c.InOrStdin()
			if args[0] != stdioName {
				file, err := os.Open(args[0])
				if err != nil {
					return commandline.Usage(fmt.Errorf("the backup can't be read: %w", err))
				}
				defer file.Close()
				in = file
			}
			shown := newProgress(c.ErrOrStderr())
			restored := shown.during("restoring")
			err := backup.Restore(input.Until(c.Context(), in), dir, shown.bytes("restoring"))
			restored()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "restored\nServe it:  gatehouse serve --data-dir=%s\n", dir)
			return err
		},
	}
	addDataDir(c, &dir, "The directory to make.")
	return c
}

func addDataDir(c *cobra.Command, dir *string, usage string) {
	c.Flags().StringVar(dir, "data-dir", *dir, usage)
}

func checkOneFile(c *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return commandline.Usage(fmt.Errorf("%s takes one file, or %s, got %q (see '%s --help')", c.CommandPath(),
			stdioName, args, c.CommandPath()))
	}
	return nil
}
