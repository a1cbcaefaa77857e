// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA_ALIGN_WITH_NETDEVICE: module parameters, for ids whose ULP sets nothing.
 *
 * A value is parsed whole before it replaces the old one, so a bad one changes
 * nothing. Creating an id reads one pointer while ha_mode was never set.
 */

#include <linux/module.h>
#include <linux/moduleparam.h>

#include "cma_align_priv.h"

static const char * const cma_align_ulps[] = {
	"user", "nvme_rdma", "nvmet_rdma", "rpcrdma", "ib_iser", "ib_isert",
	"ib_srpt", "ib_srp", "rds_rdma", "smc", "rtrs_client", "rtrs_server",
	"ksmbd", "cifs", "9pnet_rdma", "ko2iblnd",
};

#define CMA_ALIGN_UNSET	0xff

/**
 * struct cma_align_defaults - a parsed ha_mode
 * @rcu: ...
 * @ulp: Mode by the index of cma_align_ulps, or CMA_ALIGN_UNSET.
 * @rest: Mode of the others.
 * @text: As it was written.
 */
struct cma_align_defaults {
	struct rcu_head	rcu;
	u8		ulp[ARRAY_SIZE(cma_align_ulps)];
	u8		rest;
	char		text[];
};

/* NULL: none for all. Replaced under the module's parameter lock. */
static struct cma_align_defaults __rcu *cma_align_defaults __read_mostly;
bool cma_align_ha_passive;
bool cma_align_ha_sticky;
unsigned int cma_align_ha_downdelay = RDMA_HA_DOWNDELAY_DEFAULT_MS;
unsigned int cma_align_ha_updelay = RDMA_HA_UPDELAY_DEFAULT_MS;

static int cma_align_parse_mode(const char *text, u8 *mode)
{
	static const char * const modes[] = {
		[RDMA_HA_NONE] = "none",
		[RDMA_ALIGN_WITH_NETDEVICE] = "align",
		[RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN] = "teardown",
	};
	int i = match_string(modes, ARRAY_SIZE(modes), text);

	if (i < 0 || *mode != CMA_ALIGN_UNSET)
		return -EINVAL;
	*mode = i;
	return 0;
}

/* A word: "mode" or "ulp=mode"; dashes count as underscores, as for modprobe. */
static int cma_align_parse_word(char *word, struct cma_align_defaults *defaults)
{
	char *mode = strchr(word, '=');
	int i;

	if (!mode)
		return cma_align_parse_mode(word, &defaults->rest);
	*mode++ = '\0';
	strreplace(word, '-', '_');
	i = match_string(cma_align_ulps, ARRAY_SIZE(cma_align_ulps), word);
	if (i < 0)
		return -EINVAL;
	return cma_align_parse_mode(mode, &defaults->ulp[i]);
}

static int cma_align_parse(const char *val, struct cma_align_defaults *defaults)
{
	char *copy, *rest, *word;
	int ret = -EINVAL;

	memset(defaults->ulp, CMA_ALIGN_UNSET, sizeof(defaults->ulp));
	defaults->rest = CMA_ALIGN_UNSET;
	copy = kstrdup(val, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	rest = copy;
	while ((word = strsep(&rest, ","))) {
		ret = cma_align_parse_word(word, defaults);
		if (ret)
			break;
	}
	kfree(copy);
	if (defaults->rest == CMA_ALIGN_UNSET)
		defaults->rest = RDMA_HA_NONE;
	return ret;
}

static int cma_align_set_ha_mode(const char *val, const struct kernel_param *kp)
{
	struct cma_align_defaults *defaults, *old;
	size_t len = strlen(val);
	int ret;

	if (len && val[len - 1] == '\n')
		len--;
	defaults = kzalloc(struct_size(defaults, text, len + 1), GFP_KERNEL);
	if (!defaults)
		return -ENOMEM;
	memcpy(defaults->text, val, len);
	ret = cma_align_parse(defaults->text, defaults);
	if (ret) {
		kfree(defaults);
		return ret;
	}
	old = rcu_replace_pointer(cma_align_defaults, defaults, true);
	if (old)
		kfree_rcu(old, rcu);
	return 0;
}

static int cma_align_get_ha_mode(char *buffer, const struct kernel_param *kp)
{
	struct cma_align_defaults *defaults;
	int ret;

	rcu_read_lock();
	defaults = rcu_dereference(cma_align_defaults);
	ret = scnprintf(buffer, PAGE_SIZE, "%s\n",
			defaults ? defaults->text : "none");
	rcu_read_unlock();
	return ret;
}

/* The module goes, or failed to load. */
static void cma_align_free_ha_mode(void *arg)
{
	kfree(rcu_dereference_raw(cma_align_defaults));
}

static const struct kernel_param_ops cma_align_ha_mode_ops = {
	.set = cma_align_set_ha_mode,
	.get = cma_align_get_ha_mode,
	.free = cma_align_free_ha_mode,
};

/* Whatever is wrong with a value, the answer is the same. */
static int cma_align_set_delay(const char *val, const struct kernel_param *kp,
			       unsigned int max)
{
	return param_set_uint_minmax(val, kp, 0, max) ? -EINVAL : 0;
}

static int cma_align_set_downdelay(const char *val,
				   const struct kernel_param *kp)
{
	return cma_align_set_delay(val, kp, RDMA_HA_DOWNDELAY_MAX_MS);
}

static const struct kernel_param_ops cma_align_downdelay_ops = {
	.set = cma_align_set_downdelay,
	.get = param_get_uint,
};

static int cma_align_set_updelay(const char *val, const struct kernel_param *kp)
{
	return cma_align_set_delay(val, kp, RDMA_HA_UPDELAY_MAX_MS);
}

static const struct kernel_param_ops cma_align_updelay_ops = {
	.set = cma_align_set_updelay,
	.get = param_get_uint,
};

module_param_cb(ha_mode, &cma_align_ha_mode_ops, NULL, 0644);
MODULE_PARM_DESC(ha_mode, "RDMA_ALIGN_WITH_NETDEVICE for ids whose ULP sets nothing: none, align, teardown, or a list such as nvme_rdma=align,user=none,teardown (default none)");
module_param_named(ha_passive, cma_align_ha_passive, bool, 0644);
MODULE_PARM_DESC(ha_passive, "ha_mode also covers listeners and the ids that they accept (default N)");
module_param_named(ha_sticky, cma_align_ha_sticky, bool, 0644);
MODULE_PARM_DESC(ha_sticky, "ha_mode reports only when the path is down (default N)");
module_param_cb(ha_downdelay, &cma_align_downdelay_ops, &cma_align_ha_downdelay,
		0644);
MODULE_PARM_DESC(ha_downdelay, "how long a path must be down before it is reported, in ms, 0..60000 (default 100)");
module_param_cb(ha_updelay, &cma_align_updelay_ops, &cma_align_ha_updelay,
		0644);
MODULE_PARM_DESC(ha_updelay, "how long a path that works must be superseded, or aligned again, before it is reported, in ms, 0..600000 (default 5000)");

/**
 * cma_align_default_mode - the mode that ha_mode names for an id
 * @id_priv: The id.
 *
 * Context: Any.
 *
 * Return: enum rdma_ha_mode.
 */
u8 cma_align_default_mode(const struct rdma_id_private *id_priv)
{
	const char *name;
	struct cma_align_defaults *defaults;
	u8 mode = RDMA_HA_NONE;
	int i;

	if (!rcu_access_pointer(cma_align_defaults))
		return mode;
	rcu_read_lock();
	defaults = rcu_dereference(cma_align_defaults);
	if (defaults) {
		name = rdma_is_kernel_res(&id_priv->res) ?
		       id_priv->res.kern_name : "user";
		mode = defaults->rest;
		i = name ? match_string(cma_align_ulps,
					ARRAY_SIZE(cma_align_ulps), name) : -1;
		if (i >= 0 && defaults->ulp[i] != CMA_ALIGN_UNSET)
			mode = defaults->ulp[i];
	}
	rcu_read_unlock();
	return mode;
}

#if IS_ENABLED(CONFIG_INFINIBAND_RDMACM_ALIGN_KUNIT_TEST)
#include "tests/cma_align_param_kunit.c"
#endif
