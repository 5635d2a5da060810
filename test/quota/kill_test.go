package quota

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/apiserver/etcd"
)

// kills is how often TestKilled kills a server.
const kills = 4

// A server that is killed at any moment leaves no charge without its object and no object without its charge.
func TestKilled(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "gatehouse")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "gatehouse.dev/cmd/gatehouse").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	store := startEtcd(t)
	var servers [2]*process
	for i := range servers {
		servers[i] = newProcess(t, binary, store)
		servers[i].start(t)
	}
	const namespace = "killed"
	client := servers[0].client(t)
	namespaceWith(t, client, namespace, 0)
	for _, q := range busyQuotas() {
		if _, err := client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), q, createOptions); err != nil {
			t.Fatal(err)
		}
	}
	h := record(t, store, namespace)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	counts := &tally{counts: map[string]int{}}
	var running sync.WaitGroup
	for i := range 32 {
		server := servers[i%len(servers)]
		running.Go(func() {
			w := &worker{t: t, client: server.client(t), namespace: namespace, history: h, tally: counts, tolerant: true,
				random: rand.New(rand.NewPCG(uint64(i), 2)), id: i}
			for ctx.Err() == nil {
				w.step(ctx)
			}
		})
	}
	for i := range kills {
		<-time.After(time.Duration(300+rand.IntN(500)) * time.Millisecond) // any moment will do
		server := servers[i%len(servers)]
		server.kill()
		server.start(t)
	}
	cancel()
	running.Wait()
	h.finish(t)
	h.check(t)
	t.Logf("%d revisions, %d kills; %s", len(h.states), kills, counts)
	if counts.counts["created"] == 0 {
		t.Error("nothing was created")
	}
}

// process is a gatehouse serve over the store.
type process struct {
	binary, dir, port string
	store             *etcd.Server
	command           *exec.Cmd
}

func newProcess(t *testing.T, binary string, store *etcd.Server) *process {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return &process{binary: binary, dir: t.TempDir(), port: fmt.Sprint(listener.Addr().(*net.TCPAddr).Port), store: store}
}

// start starts the server and waits until it is ready.
func (p *process) start(t *testing.T) {
	t.Helper()
	p.command = exec.Command(p.binary, "serve", "--data-dir="+p.dir, "--secure-port="+p.port, "--etcd-servers="+p.store.Endpoint())
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	started := p.command
	t.Cleanup(func() { started.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Use it:") {
			return
		}
	}
	t.Fatal("the server ended before it was ready")
}

func (p *process) kill() {
	p.command.Process.Signal(os.Kill)
	p.command.Wait()
}

func (p *process) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return kubernetes.NewForConfigOrDie(config)
}
