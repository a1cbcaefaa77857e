// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of cma_align_param.c: what the module's parameters accept. What
 * is refused must leave the old value.
 */

#include "cma_align_kunit.h"

#define PARAM_OLD	"rpcrdma=teardown,align"

struct param_row {
	const char	*text;
	int		ret;
	/* The modes that an id of this ULP then gets. */
	u8		user;
	u8		nvme_rdma;
	u8		other;
};

#define MODE_NONE		RDMA_HA_NONE
#define MODE_ALIGN		RDMA_ALIGN_WITH_NETDEVICE
#define MODE_TEARDOWN	RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN

static const struct param_row param_rows[] = {
	{ "none", 0, MODE_NONE, MODE_NONE, MODE_NONE },
	{ "align", 0, MODE_ALIGN, MODE_ALIGN, MODE_ALIGN },
	{ "teardown", 0, MODE_TEARDOWN, MODE_TEARDOWN, MODE_TEARDOWN },
	{ "align\n", 0, MODE_ALIGN, MODE_ALIGN, MODE_ALIGN },
	{ "nvme_rdma=align", 0, MODE_NONE, MODE_ALIGN, MODE_NONE },
	{ "nvme-rdma=align", 0, MODE_NONE, MODE_ALIGN, MODE_NONE },
	{ "user=teardown,align", 0, MODE_TEARDOWN, MODE_ALIGN, MODE_ALIGN },
	{ "align,user=teardown", 0, MODE_TEARDOWN, MODE_ALIGN, MODE_ALIGN },
	{ "align,user=none", 0, MODE_NONE, MODE_ALIGN, MODE_ALIGN },
	{ "nvme_rdma=align,rpcrdma=teardown,user=none", 0, MODE_NONE, MODE_ALIGN, MODE_NONE },
	{ "nvme_rdma=none,none", 0, MODE_NONE, MODE_NONE, MODE_NONE },
	{ "user=none,nvme_rdma=align,nvmet_rdma=align,ib_srp=none,teardown\n",
	  0, MODE_NONE, MODE_ALIGN, MODE_TEARDOWN },
	/* Empty. */
	{ "", -EINVAL },
	{ "\n", -EINVAL },
	{ ",", -EINVAL },
	{ "align,", -EINVAL },
	{ ",align", -EINVAL },
	{ "align,,user=none", -EINVAL },
	{ "user=", -EINVAL },
	{ "=align", -EINVAL },
	{ "=", -EINVAL },
	/* Unknown. */
	{ "sometimes", -EINVAL },
	{ "0", -EINVAL },
	{ "1", -EINVAL },
	{ "Align", -EINVAL },
	{ "alig", -EINVAL },
	{ "alignn", -EINVAL },
	{ "align-", -EINVAL },
	{ "tear-down", -EINVAL },
	{ "nvme=align", -EINVAL },
	{ "nvme_rdm=align", -EINVAL },
	{ "nvme_rdmaa=align", -EINVAL },
	{ "NVME_RDMA=align", -EINVAL },
	{ "rest=align", -EINVAL },
	{ "user=sometimes", -EINVAL },
	{ "user=1", -EINVAL },
	/* Double. */
	{ "align,align", -EINVAL },
	{ "none,none", -EINVAL },
	{ "align,teardown", -EINVAL },
	{ "user=align,user=align", -EINVAL },
	{ "user=none,user=align", -EINVAL },
	{ "nvme_rdma=align,nvme-rdma=align", -EINVAL },
	/* Malformed. */
	{ " align", -EINVAL },
	{ "align ", -EINVAL },
	{ "align, user=none", -EINVAL },
	{ "user = align", -EINVAL },
	{ "user=align=align", -EINVAL },
	{ "user==align", -EINVAL },
	{ "user:align", -EINVAL },
	{ "user=align;teardown", -EINVAL },
	{ "align\n\n", -EINVAL },
	{ "\nalign", -EINVAL },
	{ "align\nteardown", -EINVAL },
	{ "user=align\n,none", -EINVAL },
	{ "align\xff", -EINVAL },
};

static void param_quote(const char *text, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "\"%*pE\"",
		 min_t(int, strlen(text), 100), text);
}

static void param_desc(const struct param_row *row, char *desc)
{
	param_quote(row->text, desc);
}

static u8 param_mode_of(struct kunit *test, const char *kern_name)
{
	struct rdma_id_private *id_priv =
		kunit_kzalloc(test, sizeof(*id_priv), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, id_priv);
	id_priv->res.user = !kern_name;
	id_priv->res.kern_name = kern_name;
	return cma_align_default_mode(id_priv);
}

static void param_expect_text(struct kunit *test, const char *text)
{
	char *buffer = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	size_t len = strcspn(text, "\n");

	KUNIT_ASSERT_NOT_NULL(test, buffer);
	KUNIT_EXPECT_EQ(test, cma_align_get_ha_mode(buffer, NULL), len + 1);
	KUNIT_EXPECT_EQ(test, strncmp(buffer, text, len), 0);
	KUNIT_EXPECT_STREQ(test, buffer + len, "\n");
}

KUNIT_ARRAY_PARAM(param, param_rows, param_desc);

static void param_test_ha_mode(struct kunit *test)
{
	const struct param_row *row = test->param_value;

	KUNIT_EXPECT_EQ(test, cma_align_set_ha_mode(row->text, NULL), row->ret);
	if (row->ret) {
		param_expect_text(test, PARAM_OLD);
		KUNIT_EXPECT_EQ(test, param_mode_of(test, "rpcrdma"), MODE_TEARDOWN);
		KUNIT_EXPECT_EQ(test, param_mode_of(test, NULL), MODE_ALIGN);
		return;
	}
	param_expect_text(test, row->text);
	KUNIT_EXPECT_EQ(test, param_mode_of(test, NULL), row->user);
	KUNIT_EXPECT_EQ(test, param_mode_of(test, "nvme_rdma"), row->nvme_rdma);
	KUNIT_EXPECT_EQ(test, param_mode_of(test, "some_other"), row->other);
}

static void param_test_every_ulp(struct kunit *test)
{
	char text[64];
	int i, j;

	for (i = 1; i < ARRAY_SIZE(cma_align_ulps); i++) {
		snprintf(text, sizeof(text), "%s=teardown", cma_align_ulps[i]);
		KUNIT_ASSERT_EQ(test, cma_align_set_ha_mode(text, NULL), 0);
		KUNIT_EXPECT_EQ(test, param_mode_of(test, NULL), MODE_NONE);
		for (j = 1; j < ARRAY_SIZE(cma_align_ulps); j++)
			KUNIT_EXPECT_EQ(test, param_mode_of(test, cma_align_ulps[j]),
					i == j ? MODE_TEARDOWN : MODE_NONE);
	}
}

/* A kernel id need not have a name; it is never taken for a program. */
static void param_test_no_name(struct kunit *test)
{
	struct rdma_id_private *id_priv =
		kunit_kzalloc(test, sizeof(*id_priv), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, id_priv);
	KUNIT_ASSERT_EQ(test, cma_align_set_ha_mode("user=align,teardown", NULL), 0);
	KUNIT_EXPECT_EQ(test, cma_align_default_mode(id_priv), MODE_TEARDOWN);
	KUNIT_EXPECT_EQ(test, param_mode_of(test, "user"), MODE_ALIGN);
}

/* As long as sysfs and the command line allow, and longer. */
static void param_test_very_long(struct kunit *test)
{
	static const char word[] = "nvme_rdma=align,";
	size_t len = 256 * 1024, i;
	char *text = kvmalloc(len + 1, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, text);
	memset(text, 'a', len);
	text[len] = '\0';
	KUNIT_EXPECT_EQ(test, cma_align_set_ha_mode(text, NULL), -EINVAL);
	memset(text, ',', len);
	KUNIT_EXPECT_EQ(test, cma_align_set_ha_mode(text, NULL), -EINVAL);
	memset(text, '=', len);
	KUNIT_EXPECT_EQ(test, cma_align_set_ha_mode(text, NULL), -EINVAL);
	for (i = 0; i < len; i++)
		text[i] = word[i % (sizeof(word) - 1)];
	KUNIT_EXPECT_EQ(test, cma_align_set_ha_mode(text, NULL), -EINVAL);
	memset(text, '\n', len);
	memcpy(text, "align", 5);
	KUNIT_EXPECT_EQ(test, cma_align_set_ha_mode(text, NULL), -EINVAL);
	param_expect_text(test, PARAM_OLD);
	kvfree(text);
}

static void param_test_never_set(struct kunit *test)
{
	struct cma_align_defaults *defaults =
		rcu_replace_pointer(cma_align_defaults, NULL, true);

	param_expect_text(test, "none");
	KUNIT_EXPECT_EQ(test, param_mode_of(test, NULL), MODE_NONE);
	KUNIT_EXPECT_EQ(test, param_mode_of(test, "nvme_rdma"), MODE_NONE);
	rcu_assign_pointer(cma_align_defaults, defaults);
}

struct param_delay_row {
	const char	*text;
	int		down;		/* -1: refused */
	int		up;
};

static const struct param_delay_row param_delay_rows[] = {
	{ "0", 0, 0 },
	{ "1", 1, 1 },
	{ "100\n", 100, 100 },
	{ "60000", 60000, 60000 },
	{ "60001", -1, 60001 },
	{ "600000", -1, 600000 },
	{ "600001", -1, -1 },
	{ "4294967295", -1, -1 },
	{ "4294967296", -1, -1 },
	{ "4294967396", -1, -1 },
	{ "18446744073709551716", -1, -1 },
	{ "-1", -1, -1 },
	{ "-0", -1, -1 },
	{ "", -1, -1 },
	{ "\n", -1, -1 },
	{ " 1", -1, -1 },
	{ "1 ", -1, -1 },
	{ "1 2", -1, -1 },
	{ "1ms", -1, -1 },
	{ "1.5", -1, -1 },
	{ "ten", -1, -1 },
	{ "1\n\n", -1, -1 },
};

static void param_delay_desc(const struct param_delay_row *row, char *desc)
{
	param_quote(row->text, desc);
}

KUNIT_ARRAY_PARAM(param_delay, param_delay_rows, param_delay_desc);

static void param_test_delays(struct kunit *test)
{
	const struct param_delay_row *row = test->param_value;
	unsigned int val = 4711;
	struct kernel_param kp = { .arg = &val };
	int ret;

	ret = cma_align_set_downdelay(row->text, &kp);
	KUNIT_EXPECT_EQ(test, ret < 0, row->down < 0);
	KUNIT_EXPECT_EQ(test, val, row->down < 0 ? 4711 : row->down);
	val = 4711;
	ret = cma_align_set_updelay(row->text, &kp);
	KUNIT_EXPECT_EQ(test, ret < 0, row->up < 0);
	KUNIT_EXPECT_EQ(test, val, row->up < 0 ? 4711 : row->up);
	/* The contract names the error. */
	if (row->up < 0)
		KUNIT_EXPECT_EQ(test, ret, -EINVAL);
}

/* The module may have been loaded with a value: put it back. */
static int param_init(struct kunit *test)
{
	test->priv = rcu_replace_pointer(cma_align_defaults, NULL, true);
	return cma_align_set_ha_mode(PARAM_OLD, NULL);
}

static void param_exit(struct kunit *test)
{
	struct cma_align_defaults *defaults =
		rcu_replace_pointer(cma_align_defaults,
				    (struct cma_align_defaults *)test->priv,
				    true);

	if (defaults)
		kfree_rcu(defaults, rcu);
}

static struct kunit_case param_cases[] = {
	KUNIT_CASE_PARAM(param_test_ha_mode, param_gen_params),
	KUNIT_CASE(param_test_every_ulp),
	KUNIT_CASE(param_test_no_name),
	KUNIT_CASE(param_test_very_long),
	KUNIT_CASE(param_test_never_set),
	KUNIT_CASE_PARAM(param_test_delays, param_delay_gen_params),
	{}
};

static struct kunit_suite param_suite = {
	.name = "rdma_cm_align_param",
	.init = param_init,
	.exit = param_exit,
	.test_cases = param_cases,
};

kunit_test_suite(param_suite);

#undef MODE_NONE
#undef MODE_ALIGN
#undef MODE_TEARDOWN
