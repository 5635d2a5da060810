// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package dashboard_test

import (
	"testing"

	"gatehouse.dev/test/chromium"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

// The page of one of several servers shows the decisions of the others, with their servers, as they
// are made. It says which server doesn't answer.
func TestSeveralServers(t *testing.T) {
	needs.Programs(t, "chromium")
	store := servertest.StartEtcd(t)
	var servers [3]*servertest.Process
	for i := range servers {
		servers[i] = servertest.NewProcess(t, "--etcd-servers="+store.Endpoint())
		servers[i].Start(t)
	}
	one, two := servers[0].Connect(t), servers[1].Connect(t).Kubectl(t, "default")
	two.OK("", "create", "configmap", "before")
	b := newBrowser(t)
	visit(b, command(t, "--kubeconfig="+one.Kubeconfig))
	b.Until("document.body.innerText.includes('configmaps/before')")
	two.OK("", "create", "configmap", "after")
	b.Until("document.body.innerText.includes('configmaps/after')")
	server := one.Kubectl(t, "default").OK("", "get", "decisions", "--field-selector=request.name=after",
		`--output=jsonpath={.items[0].metadata.labels.decisions\.gatehouse\.dev/server}`)
	chromium.See[any](b.Page, "[...document.querySelectorAll('*')].findLast(e => e.innerText?.includes('configmaps/after')).click()")
	b.Until("document.querySelector('dl.facts')?.innerText.includes(" + chromium.Quoted(server) + ")")

	servers[2].Suspend(t)
	visit(b, command(t, "--kubeconfig="+one.Kubeconfig))
	b.Until("document.querySelector('#problem').innerText.includes('no answer within')")
	b.Until("document.querySelector('#state.live')")
	b.Until("document.body.innerText.includes('configmaps/after')")
}
